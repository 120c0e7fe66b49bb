"""What the server declares: `server/talkwire_server/metrics` is the one source."""

from __future__ import annotations

from typing import cast

from prometheus_client import Metric as Family

from talkwire_server.metrics import Described, Metrics
from tools.dashboards.metric import SUFFIXES, Kind, Metric
from tools.metrics_table import catalogue


def declared() -> dict[str, Metric]:
    """All metrics by name: the server's own, and those of its process that the Prometheus client knows."""
    families = {family.name: family for family in Metrics().registry.collect()}
    own = [_metric(described, families) for described in catalogue()]
    others = [_process(family) for name, family in families.items() if name.startswith("process_")]
    return {metric.name: metric for metric in (*own, *others)}


def _metric(described: Described, families: dict[str, Family]) -> Metric:
    kind = cast(Kind, described.kind)
    name = described.name.removesuffix(SUFFIXES[kind][0]) if kind in ("counter", "info") else described.name
    return Metric(name, kind, described.text, described.labels, _buckets(families.get(name)))


def _buckets(family: Family | None) -> tuple[str, ...]:
    samples = family.samples if family is not None else []
    return tuple(dict.fromkeys(sample.labels["le"] for sample in samples if "le" in sample.labels))


def _process(family: Family) -> Metric:
    return Metric(family.name, cast(Kind, family.type), family.documentation)
