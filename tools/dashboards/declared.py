"""What the server declares, asked of a server: `server/talkwire_server/metrics.py` is the one source."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import cast, get_args

from prometheus_client import Metric as Family

from talkwire_pipeline.deploy import load
from talkwire_pipeline.fakes import FakeStages
from talkwire_server.app import App
from tools.dashboards.metric import Kind, Metric


def declared() -> dict[str, Metric]:
    """All metrics of a server with fake stages, by name."""
    return {metric.name: metric for metric in map(_metric, asyncio.run(_families()))}


async def _families() -> Iterable[Family]:
    """It listens on a free port of loopback for a moment: some metrics come with the start alone."""
    app = App(load("demo", environment={}), stages=FakeStages())
    try:
        await app.start()
        async with app.pipeline:
            return list(app.metrics.registry.collect())
    finally:
        await app.stop()


def _metric(family: Family) -> Metric:
    kind = cast(Kind, family.type if family.type in get_args(Kind) else "gauge")
    # Labels are those of the series that are there: a metric whose labels take their values later shows none yet.
    names = {name for sample in family.samples for name in sample.labels}
    buckets = dict.fromkeys(sample.labels["le"] for sample in family.samples if "le" in sample.labels)
    return Metric(family.name, kind, family.documentation, tuple(sorted(names - {"le"})), tuple(buckets))
