"""A metric as `/metrics` shows it, and the names that it has in PromQL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["counter", "gauge", "histogram", "summary", "info"]
SUFFIXES: dict[Kind, tuple[str, ...]] = {
    "counter": ("_total",),
    "gauge": ("",),
    "histogram": ("_bucket", "_sum", "_count"),
    "summary": ("_sum", "_count"),
    "info": ("_info",),
}
"""What stands behind a metric's name in PromQL, by kind."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One family.

    Attributes:
        name: as the Prometheus client calls it: without `_total` and `_info`.
        kind: its type.
        text: what it is, a sentence.
        labels: names of its labels.
        buckets: upper bounds of a histogram, as its `le` label has them; empty: not known.
    """

    name: str
    kind: Kind
    text: str
    labels: tuple[str, ...] = ()
    buckets: tuple[str, ...] = ()

    @property
    def series(self) -> tuple[str, ...]:
        """Its names in PromQL."""
        return tuple(self.name + suffix for suffix in SUFFIXES[self.kind])

    @property
    def shown(self) -> str:
        """Its name in a list for people: `talkwire_stage_restarts_total{stage}`."""
        name = self.name if self.kind in ("histogram", "summary") else self.series[0]
        return name + (f"{{{','.join(self.labels)}}}" if self.labels else "")
