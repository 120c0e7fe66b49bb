"""Every expression of every panel, as Prometheus reads it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from talkwire.v1 import speech_pb2 as pb
from talkwire_pipeline import events
from talkwire_pipeline.fakes import FakeStages
from talkwire_pipeline.histogram import Histogram
from talkwire_pipeline.messages import StageName
from talkwire_pipeline.outlet import slow_reader
from talkwire_pipeline.stages import StageHealth
from talkwire_server.metrics.stages import CODEC, EDGE, EDGES, TALKER, Figure
from tools.dashboards import prometheus
from tools.dashboards.boards import boards
from tools.dashboards.catalogue import Catalogue
from tools.dashboards.known import catalogue
from tools.dashboards.queries import Query
from tools.dashboards.replay import Replay, replayed
from tools.dashboards.scrape import lines, save

TEXT = "The kettle is on."
ROOT = Path(__file__).parents[2]
VARIABLES = {"$__rate_interval": "1m", "$__range": "1h", "$instance": ".*"}
"""What Grafana puts in."""

pytestmark = pytest.mark.skipif(prometheus.find("promtool") is None, reason=prometheus.MISSING)


def expressions(path: Path) -> Iterator[str]:
    board: dict[str, Any] = json.loads(path.read_text())
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            expr: str = target["expr"]
            for name, value in VARIABLES.items():
                expr = expr.replace(name, value)
            yield expr


@pytest.mark.parametrize("name", ["overview", "talker", "codec_connector", "front_end", "voices"])
def test_every_panel_asks_in_promql(name: str, tmp_path: Path) -> None:
    asked = list(expressions(ROOT / "docker" / "grafana" / "dashboards" / f"{name}.json"))
    assert len(asked) > 5
    rules = [{"record": f"panel:{number}", "expr": expr} for number, expr in enumerate(asked)]
    path = tmp_path / "panels.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    assert f"{len(asked)} rules found" in prometheus.promtool("check", "rules", path)


# ---- on what a server really shows

LATER_S = 10.0
"""Between the two pages of the record."""
OTHERS = ("ALERTS", "talkwire:")
"""What Prometheus makes itself."""


class TalkativeStages(FakeStages):
    """Stages that say all that the server would show of them, as if their processes were this one."""

    def stats(self, stage: StageName) -> dict[str, float]:
        said = super().stats(stage)
        for figure in TALKER if stage == "talker" else CODEC:
            said |= self._figures(figure)
        edges = {f"edge:{edge}:{figure.key}": self._grown() for edge in EDGES for figure in EDGE}
        return said | edges

    def _figures(self, figure: Figure) -> dict[str, float]:
        if figure.kind != "histogram":
            return {figure.key: self._grown()}
        counted = Histogram(figure.key, (0.1, 1.0))
        for _ in range(int(self._grown())):
            counted.observe(0.5)
        return counted.stats()

    def _grown(self) -> float:
        """What was received so far: more with every utterance."""
        return float(len(self.received))

    def health(self, stage: StageName) -> StageHealth:
        return StageHealth(pid=os.getpid())


async def record(served: Any, path: Path) -> None:
    """Two pages of a server to which everything happens that it counts, before the first and between them."""
    samples: list[str] = []
    for at_s in (1_700_000_000.0, 1_700_000_000.0 + LATER_S):
        await happen(served)
        page = await asyncio.to_thread(fetch, f"http://127.0.0.1:{served.app.probes.port}/metrics")
        samples += lines(page, at_s)
    save(path, samples)


async def happen(served: Any) -> None:
    caller = served.converse()
    await caller.speak("spoken", TEXT)
    await caller.until("finished")
    await caller.speak("refused", TEXT, voice="nobody")
    await caller.until("failed")
    await caller.send("aborted", start=pb.Start())
    await caller.send("aborted", abort=pb.Abort())
    await caller.until("aborted")
    caller.call.cancel()
    await served.idle()
    metrics = served.app.metrics  # for what takes a minute, or is not built yet
    metrics.ended(events.Failed(slow_reader(60.0)), events.Statistics(0, 0, 0, 0.0, 0.0, 0.0))
    metrics.rpc_ended("ListVoices", "OK", 0.01)
    metrics.reread("tls", True)


def fetch(url: str) -> str:
    with urllib.request.urlopen(url) as response:
        text: str = response.read().decode()
    return text


def faults(replay: Replay, known: Catalogue) -> Iterator[str]:
    """Panels that show nothing, or lack a label of their legend, though the server declares all that they ask for."""
    for board in boards(known):
        for panel in board.panels:
            for query in panel.queries:
                names = {metric.name for metric in known.used(query.expr)}
                ours = names <= set(known.declared) and not any(other in query.expr for other in OTHERS)
                if ours and not whole(query, replay):
                    yield f"{board.name}: {panel.title}: {query.expr}"


def whole(query: Query, replay: Replay) -> bool:
    found = replay.ask(query.expr, rate_s=15, step_s=LATER_S)
    asked = set(re.findall(r"\{\{(\w+)\}\}", query.legend))
    return bool(found) and all(asked <= set(series.labels) for series in found)


@pytest.mark.skipif(prometheus.find("prometheus") is None, reason=prometheus.MISSING)
async def test_every_panel_finds_the_labels_that_it_asks_for(
    serve: Callable[..., Awaitable[Any]], tmp_path: Path
) -> None:
    await record(await serve("server.metrics_port=0", stages=TalkativeStages()), tmp_path / "record.om")
    known = await asyncio.to_thread(catalogue)

    def ask() -> list[str]:
        with replayed(tmp_path / "record.om") as replay:
            assert replay.end_s - replay.begin_s == LATER_S
            return list(faults(replay, known))

    assert await asyncio.to_thread(ask) == []


def test_a_broken_expression_is_found(tmp_path: Path) -> None:
    path = tmp_path / "broken.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "x", "rules": [{"record": "x", "expr": "sum(rate(x))"}]}]}))
    with pytest.raises(RuntimeError, match="expected type range vector"):
        prometheus.promtool("check", "rules", path)
