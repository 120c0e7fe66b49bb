"""How a figure that was measured several times is printed."""

from __future__ import annotations

import statistics
from collections.abc import Sequence


def spread(values: Sequence[float], digits: int = 1) -> str:
    """The median, and behind it from the least to the most: `5.2 (5.0-5.9)`."""
    middle, least, most = (f"{value:.{digits}f}" for value in (statistics.median(values), min(values), max(values)))
    return f"{middle} ({least}-{most})"
