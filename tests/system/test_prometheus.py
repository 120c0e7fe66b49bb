"""A real Prometheus scrapes a real server under load: what docs/metrics.md and the rules promise can be asked for."""

from __future__ import annotations

import asyncio
import json
import math
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.callers import TEXT, heard, start
from support.observed import LIMIT_S, Observed, until_equal
from talkwire import NotFound, SpeechClient
from talkwire.listen import say
from tools.dashboards import prometheus
from tools.metrics_table import catalogue
from tools.server import serving

RULES = Path(__file__).parents[2] / "docker" / "prometheus" / "rules"
STREAMS = 3
SPOKEN = 6
"""By each stream."""
ABORTED = 2
WINDOW_S = 60
"""Of rates; longer than all of it takes, so that nothing has fallen out of it."""
NEEDS_VLLM = {
    "talkwire_talker_preemptions_total",
    "talkwire_talker_prefix_hits_total",
    "talkwire_talker_prefix_queries_total",
}
"""Of the table: what only a talker on vLLM says. (Tracing adds exemplars, and no metric.)"""
OF_SPEED = {"TalkwireTtfaBudgetBurn", "TalkwireContinuityBudgetBurn"}
"""Alerts that a slow machine may have a right to."""
CONFIGURATION = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: ["rules/*.yml"]
scrape_configs:
  - job_name: talkwire
    static_configs: [{{targets: ["{server}"]}}]
"""

pytestmark = pytest.mark.skipif(prometheus.find("prometheus") is None, reason=prometheus.MISSING)


@dataclass(frozen=True, slots=True)
class Asked:
    """A Prometheus' HTTP API."""

    url: str

    def get(self, path: str, **values: str) -> Any:
        """The data of an answer. Raises `urllib.error.HTTPError` where the question is at fault."""
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(values)}"
        with urllib.request.urlopen(url, timeout=LIMIT_S) as answer:
            return json.load(answer)["data"]

    def values(self, query: str) -> list[float]:
        """Of every series that the query gives now."""
        return [float(each["value"][1]) for each in self.get("query", query=query)["result"]]

    def value(self, query: str) -> float | None:
        """Of the one series, if there is one."""
        found = self.values(query)
        assert len(found) < 2, query
        return found[0] if found else None


@pytest.fixture(scope="module")
def server() -> Iterator[Observed]:
    with serving("--profile", "demo", "--metrics-port", "0", "--log-level", "warning") as server:
        yield Observed(server)


@pytest.fixture(scope="module")
def asked(server: Observed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    folder = tmp_path_factory.mktemp("prometheus")
    copy_rules(folder / "rules")
    with prometheus.running(folder, CONFIGURATION.format(server=server.metrics)) as url:
        asked = Asked(url)
        asyncio.run(load(server, asked))
        yield asked


def copy_rules(folder: Path) -> None:
    """The rules that are shipped, each evaluated every second."""
    folder.mkdir()
    for path in RULES.glob("*.yml"):
        content = yaml.safe_load(path.read_text())
        for group in content["groups"]:
            group["interval"] = "1s"
        (folder / path.name).write_text(yaml.safe_dump(content))


async def load(server: Observed, asked: Asked) -> None:
    """Everything happens under its eyes: from before the first utterance to after the last."""
    await until_equal(lambda: asked.value("up"), 1.0)
    async with SpeechClient(server.target) as client:
        await asyncio.gather(*(speak(client) for _ in range(STREAMS)))
        await client.info()
    await server.until_idle()
    await until_equal(lambda: asked.value('talkwire_rpcs_total{method="GetServerInfo"}'), 1.0)


async def speak(client: SpeechClient) -> None:
    """Utterances that are spoken to the end, some that are aborted, and one that is refused."""
    async with client.converse() as stream:
        for number in range(SPOKEN):
            await say(stream, TEXT * 2, seed=number)
        for _ in range(ABORTED):
            await (await heard(await start(stream))).abort()
        with suppress(NotFound):
            await say(stream, TEXT, voice="nobody")


def test_the_server_is_up(asked: Asked) -> None:
    assert asked.value('up{job="talkwire"}') == 1
    (target,) = asked.get("targets")["activeTargets"]
    assert (target["health"], target["lastError"]) == ("up", "")


def test_openmetrics_is_what_is_spoken(asked: Asked) -> None:
    """In the older format an info is a gauge, and a counter's name ends in `_total`."""
    kinds = {name: said[0]["type"] for name, said in asked.get("metadata").items() if name.startswith("talkwire_")}
    assert kinds["talkwire_build"] == "info"
    assert kinds["talkwire_utterances"] == "counter"
    assert "unknown" not in kinds.values()


def test_counters_are_what_happened(asked: Asked) -> None:
    ends = {"complete": STREAMS * SPOKEN, "aborted": STREAMS * ABORTED, "failed": 0, "disconnected": 0}
    for end, count in ends.items():
        selector = f'talkwire_utterances_total{{end="{end}"}}'
        assert asked.value(selector) == count
        rate = asked.value(f"rate({selector}[{WINDOW_S}s])")
        assert rate is not None
        assert (rate > 0) == (count > 0)
    assert asked.value('talkwire_refusals_total{reason="VOICE_NOT_FOUND"}') == STREAMS
    assert (asked.value(f"rate(talkwire_audio_seconds_total[{WINDOW_S}s])") or 0) > 0


@pytest.mark.parametrize("quantile", [0.5, 0.95, 0.99])
def test_quantiles_of_the_first_audio_are_there(asked: Asked, quantile: float) -> None:
    buckets = f"sum by (le) (rate(talkwire_ttfa_seconds_bucket[{WINDOW_S}s]))"
    value = asked.value(f"histogram_quantile({quantile}, {buckets})")
    assert value is not None
    assert math.isfinite(value)
    assert value > 0
    counted = asked.value("talkwire_ttfa_seconds_count")
    assert counted == asked.value('talkwire_ttfa_seconds_bucket{le="+Inf"}') == STREAMS * (SPOKEN + ABORTED)


@pytest.mark.parametrize("metric", catalogue(), ids=lambda metric: str(metric.name))
def test_every_metric_of_the_table_is_there(asked: Asked, metric: Any) -> None:
    name = f"{metric.name}_bucket" if metric.kind == "histogram" else metric.name
    series = asked.get("series", **{"match[]": name})
    assert bool(series) == (metric.name not in NEEDS_VLLM)
    for each in series:
        assert set(metric.labels) <= set(each)


async def test_every_rule_is_evaluated_and_none_fires(asked: Asked) -> None:
    def rules() -> list[dict[str, Any]]:
        return [rule for group in asked.get("rules")["groups"] for rule in group["rules"]]

    await until_equal(lambda: {rule["health"] for rule in rules()}, {"ok"})
    assert {rule["type"] for rule in rules()} == {"recording", "alerting"}
    firing = {rule["name"] for rule in rules() if rule.get("state") == "firing"}
    assert not firing - OF_SPEED
