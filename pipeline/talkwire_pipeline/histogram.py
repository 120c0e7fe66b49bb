"""Values counted by size, for stages: they have no metrics of their own, and send these among their figures. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

SECONDS = (0.0005, 0.001, 0.002, 0.003, 0.004, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.04, 0.06, 0.1, 0.2, 0.5, 1.0)
"""Bounds for the times of steps and calls."""
COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
"""Bounds for what goes into a step or a call together."""
FRAMES = (4, 8, 16, 24, 32, 45, 64, 96, 128, 256, 512)
"""Bounds for the frames of a window, context included."""
_LE, _SUM = ":le:", ":sum"


class Histogram:
    """Counts by upper bounds.

    Args:
        name: of its figures.
        bounds: inclusive upper bounds, ascending; what is above the last is counted by none of them.
    """

    def __init__(self, name: str, bounds: Sequence[float]) -> None:
        self._name = name
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """One more value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def stats(self) -> dict[str, float]:
        """Its figures by name: how many values are at most each bound, `inf` at the end, and the sum of all."""
        figures, total = dict[str, float](), 0
        for bound, count in zip((*self._bounds, float("inf")), self._counts, strict=True):
            total += count
            figures[f"{self._name}{_LE}{bound:g}"] = total
        return {**figures, f"{self._name}{_SUM}": self._sum}


def read(stats: Mapping[str, float], name: str) -> tuple[list[tuple[str, float]], float] | None:
    """What `Histogram.stats` put among `stats`: counts by bound, ascending, and the sum; None: it is not there."""
    head = f"{name}{_LE}"
    counts = [(key.removeprefix(head), value) for key, value in stats.items() if key.startswith(head)]
    if not counts:
        return None
    return sorted(counts, key=lambda pair: float(pair[0])), stats[f"{name}{_SUM}"]
