"""A recorded scrape: pages of `/metrics` with the time of each, as OpenMetrics text that Prometheus can take in."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

LABELS = {"job": "talkwire", "instance": "demo"}
"""What Prometheus would add to the series of a server."""


def lines(page: str, at_s: float, labels: Mapping[str, str] = LABELS) -> Iterable[str]:
    """The samples of one page, read at `at_s` (seconds since 1970)."""
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            if not sample.name.endswith("_created"):
                pairs = ",".join(f"{name}={json.dumps(value)}" for name, value in ({**labels, **sample.labels}).items())
                yield f"{sample.name}{{{pairs}}} {sample.value!r} {at_s:.3f}\n"


def save(path: Path, samples: Iterable[str]) -> None:
    """Writes a recorded scrape."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(samples) + "# EOF\n", encoding="utf-8")
