"""The rules, as Prometheus reads them: what is valid, what fires, what stays silent."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from tools.dashboards import prometheus
from tools.dashboards.alerts import alert_groups, alerts
from tools.dashboards.recording import recording_groups

ROOT = Path(__file__).parents[2]
FILES = [ROOT / "docker" / "prometheus" / "rules" / name for name in ("recording.yml", "alerts.yml")]
ORDER = {
    "rule_files": [str(path) for path in FILES],
    "group_eval_order": [group.name for group in (*recording_groups(), *alert_groups())],
}
SERVER = 'job="talkwire",instance="a:9464"'
INFO = f"talkwire_build_info{{{SERVER}}}"
STARTED = f"process_start_time_seconds{{{SERVER}}}"
MIB = 1024 * 1024
FIRING = 'count by (alertname, severity, burn) (ALERTS{alertstate="firing"})'

pytestmark = pytest.mark.skipif(prometheus.find("promtool") is None, reason=prometheus.MISSING)


class Case(NamedTuple):
    """Series of one value a minute, and which alerts fire `at` a time: name, severity and, for burns, the factor.

    `about` names the alerts that the case is for, whether they fire or not.
    """

    name: str
    about: str
    series: dict[str, str]
    at: str
    firing: tuple[tuple[str, ...], ...] = ()
    every: str = "1m"


def rising(*steps: tuple[float, int]) -> str:
    """A counter that goes up by so much a minute for so many minutes, step after step."""
    value, parts = 0.0, []
    for rate, minutes in steps:
        parts.append(f"{value:g}+{rate:g}x{minutes - 1}" if minutes > 1 else f"{value:g}")
        value += rate * minutes
    return " ".join(parts)


def ttfa(*steps: tuple[float, float, int]) -> dict[str, str]:
    """Utterances a minute, the late ones among them, for so many minutes."""
    return {
        f"talkwire_ttfa_seconds_count{{{SERVER}}}": rising(*((all_, minutes) for all_, _, minutes in steps)),
        f'talkwire_ttfa_seconds_bucket{{le="0.5",{SERVER}}}': rising(*((n - late, m) for n, late, m in steps)),
    }


def continuity(good: float, bad: float, minutes: int) -> dict[str, str]:
    series = {"true": good, "false": bad}
    name = 'talkwire_continuity_total{{ok="{}",threshold_ms="100",{}}}'
    return {name.format(ok, SERVER): rising((rate, minutes)) for ok, rate in series.items() if rate}


def ended(minutes: int, **rates: float) -> dict[str, str]:
    """Utterances a minute by their end."""
    return {f'talkwire_utterances_total{{end="{end}",{SERVER}}}': rising((n, minutes)) for end, n in rates.items()}


def counted(metric: str, label: str, value: str, rate: float, minutes: int) -> dict[str, str]:
    return {f'talkwire_{metric}_total{{{label}="{value}",{SERVER}}}': rising((rate, minutes))}


def held(metric: str, values: str, more: str = "") -> dict[str, str]:
    return {f"{metric}{{{more}{SERVER}}}": values}


def grown(metric: str, before: float, after: float, more: str = "") -> dict[str, str]:
    """Nine hours of a server that began with the clock; the last three with other values."""
    values = f"{before * MIB:g}x360 {after * MIB:g}x180"
    return {**held(metric, values, more), STARTED: "0x540", INFO: "1x540"}


def burns(slo: str, *factors: str) -> tuple[tuple[str, ...], ...]:
    severity = {"14.4x": "page", "6x": "page", "1x": "ticket"}
    return tuple((f"Talkwire{slo}BudgetBurn", severity[factor], factor) for factor in factors)


TTFA, GAPS, ERRORS = ("TalkwireTtfaBudgetBurn", "TalkwireContinuityBudgetBurn", "TalkwireErrorBudgetBurn")
ALL = ("14.4x", "6x", "1x")
CASES = (
    Case("a third is late", TTFA, ttfa((10, 3, 70)), "65m", burns("Ttfa", *ALL)),
    Case("a tenth is late", TTFA, ttfa((10, 1, 70)), "65m", burns("Ttfa", "6x", "1x")),
    Case("a thirtieth is late", TTFA, ttfa((30, 1, 400)), "390m", burns("Ttfa", "1x"), "5m"),
    Case("one in two hundred is late", TTFA, ttfa((200, 1, 400)), "390m", every="5m"),
    Case("it is over for ten minutes", TTFA, ttfa((10, 5, 60), (10, 0, 12)), "70m", burns("Ttfa", "6x", "1x")),
    Case("it is over for forty minutes", TTFA, ttfa((10, 5, 60), (10, 0, 45)), "100m", burns("Ttfa", "1x")),
    Case("it is over for seven hours", TTFA, ttfa((10, 5, 60), (10, 0, 430)), "480m", every="5m"),
    Case("five bad minutes of an hour", TTFA, ttfa((10, 0, 60), (10, 4, 5)), "64m", burns("Ttfa", "1x")),
    Case("all is late, but few speak", TTFA, ttfa((0.1, 0.1, 80)), "75m"),
    Case("a bad hour of three days", TTFA, ttfa((10, 0, 4320), (10, 1, 60)), "73h", every="1h"),
    Case("two bad hours of three days", TTFA, ttfa((10, 0, 4200), (10, 5, 120)), "72h", burns("Ttfa", *ALL), "1h"),
    Case("nobody speaks", TTFA, ttfa((0, 0, 70)), "65m"),
    Case("a third stutters", GAPS, continuity(7, 3, 70), "65m", burns("Continuity", *ALL)),
    Case("one in two hundred stutters", GAPS, continuity(199, 1, 70), "65m"),
    Case("none has stuttered yet", GAPS, continuity(10, 0, 70), "65m"),
    Case(
        "a tenth fails",
        ERRORS,
        {**ended(70, complete=9, failed=1), **counted("failures", "reason", "INTERNAL", 1, 70)},
        "65m",
        burns("Error", *ALL),
    ),
    Case(
        "a tenth is refused while a stage is down",
        ERRORS,
        {**ended(70, complete=9), **counted("refusals", "reason", "STAGE_DOWN", 1, 70)},
        "65m",
        burns("Error", *ALL),
    ),
    Case(
        "callers send nonsense, and the server drains",
        ERRORS,
        {
            **ended(70, complete=9, failed=5),
            **counted("failures", "reason", "INVALID_ARGUMENT", 5, 70),
            **counted("refusals", "reason", "DRAINING", 5, 70),
        },
        "65m",
    ),
    Case(
        "it does not answer",
        "TalkwireServerDown",
        {f"up{{{SERVER}}}": "1x10 0x10", INFO: "1x10 _x10"},
        "15m",
        (("TalkwireServerDown", "page"),),
    ),
    Case("one scrape is missed", "TalkwireServerDown", {f"up{{{SERVER}}}": "1x10 0 1x10", INFO: "1x20"}, "11m"),
    Case("another's server is down", "TalkwireServerDown", {'up{job="else",instance="b"}': "0x20"}, "15m"),
    Case(
        "a stage is down",
        "TalkwireStageDown",
        held("talkwire_stage_up", "1x10 0x10", 'stage="codec",'),
        "15m",
        (("TalkwireStageDown", "page"),),
    ),
    Case("a stage restarts", "TalkwireStageDown", held("talkwire_stage_up", "1x9 0 0 1x10", 'stage="codec",'), "11m"),
    Case(
        "three restarts in an hour",
        "TalkwireStageRestarts",
        held("talkwire_stage_restarts_total", "0x20 1x10 2x10 3x30", 'stage="talker",'),
        "60m",
        (("TalkwireStageRestarts", "ticket"),),
    ),
    Case(
        "two restarts in an hour",
        "TalkwireStageRestarts",
        held("talkwire_stage_restarts_total", "0x20 1x10 2x40", 'stage="talker",'),
        "60m",
    ),
    Case(
        "the queue is full",
        "TalkwireQueueFull",
        {**ended(30, complete=1000), **counted("refusals", "reason", "QUEUE_FULL", 2, 30)},
        "20m",
        (("TalkwireQueueFull", "ticket"),),
    ),
    Case(
        "the queue is too long when the text is there",
        "TalkwireQueueFull",
        {**ended(30, complete=1000), **counted("failures", "reason", "QUEUE_FULL", 2, 30)},
        "20m",
        (("TalkwireQueueFull", "ticket"),),
    ),
    Case(
        "one refusal",
        "TalkwireQueueFull",
        {**ended(30, complete=1000), **held("talkwire_refusals_total", "0x10 1x20", 'reason="LIVE_UTTERANCES",')},
        "14m",
    ),
    Case(
        "a stream has too many",
        "TalkwireQueueFull",
        {**ended(30, complete=10), **counted("refusals", "reason", "STREAM_UTTERANCES", 2, 30)},
        "20m",
    ),
    Case(
        "callers do not read",
        "TalkwireSlowReaders",
        counted("failures", "reason", "SLOW_READER", 0.2, 60),
        "50m",
        (("TalkwireSlowReaders", "ticket"),),
    ),
    Case("one does not read", "TalkwireSlowReaders", counted("failures", "reason", "SLOW_READER", 0.05, 60), "50m"),
    Case(
        "every tenth goes in circles",
        "TalkwireRunaways",
        ended(90, complete=9, loop=0.5, cap=0.4, max_audio=0.1),
        "80m",
        (("TalkwireRunaways", "ticket"),),
    ),
    Case("one in a hundred does", "TalkwireRunaways", ended(90, complete=99, loop=1), "80m"),
    Case("two of ten do", "TalkwireRunaways", ended(90, complete=0.1, cap=0.04), "80m"),
    Case("many are aborted", "TalkwireRunaways", ended(90, complete=9, aborted=9), "80m"),
    Case(
        "the cache is full",
        "TalkwireKvCacheFull",
        held("talkwire_talker_kv_used_ratio", "0.5x10 0.99x20"),
        "25m",
        (("TalkwireKvCacheFull", "ticket"),),
    ),
    Case(
        "the cache is full for a while",
        "TalkwireKvCacheFull",
        held("talkwire_talker_kv_used_ratio", "1x9 0.6x20"),
        "9m",
    ),
    Case(
        "the server doubles",
        "TalkwireMemoryGrowth",
        grown("process_resident_memory_bytes", 100, 200),
        "510m",
        (("TalkwireMemoryGrowth", "ticket"),),
        "5m",
    ),
    Case(
        "the talker grows by a third",
        "TalkwireMemoryGrowth",
        grown("talkwire_stage_resident_memory_bytes", 400, 560, 'stage="talker",'),
        "510m",
        (("TalkwireMemoryGrowth", "ticket"),),
        "5m",
    ),
    Case(
        "a small one doubles",
        "TalkwireMemoryGrowth",
        grown("process_resident_memory_bytes", 50, 100),
        "510m",
        every="5m",
    ),
    Case(
        "a large one varies",
        "TalkwireMemoryGrowth",
        grown("process_resident_memory_bytes", 8000, 9000),
        "510m",
        every="5m",
    ),
    Case(
        "a server that has just begun fills up",
        "TalkwireMemoryGrowth",
        {**grown("process_resident_memory_bytes", 100, 200), STARTED: f"0x360 {360 * 60}x180"},
        "510m",
        every="5m",
    ),
    Case(
        "a process of others grows",
        "TalkwireMemoryGrowth",
        {**grown("process_resident_memory_bytes", 100, 200), INFO: "_x540"},
        "510m",
        every="5m",
    ),
    Case(
        "a ring is not given back",
        "TalkwireSharedMemoryGrowth",
        grown("talkwire_shared_memory_bytes", 12, 13),
        "510m",
        (("TalkwireSharedMemoryGrowth", "ticket"),),
        "5m",
    ),
    Case(
        "the rings stay",
        "TalkwireSharedMemoryGrowth",
        grown("talkwire_shared_memory_bytes", 12, 12),
        "510m",
        every="5m",
    ),
    Case(
        "a new server has larger rings",
        "TalkwireSharedMemoryGrowth",
        {**grown("talkwire_shared_memory_bytes", 12, 24), STARTED: f"0x360 {360 * 60}x180"},
        "510m",
        every="5m",
    ),
)


def samples(case: Case) -> Iterator[dict[str, object]]:
    for name, severity, *burn in case.firing:
        labels = {"alertname": name, "severity": severity} | ({"burn": burn[0]} if burn else {})
        yield {"labels": "{" + ",".join(f'{key}="{value}"' for key, value in labels.items()) + "}", "value": 1}


def write(case: Case, kind: str, test: dict[str, object], folder: Path) -> Path:
    """A test file of promtool."""
    series = [{"series": name, "values": values} for name, values in case.series.items()]
    tests = [{"interval": "1m", "input_series": series, kind: [test]}]
    path = folder / "case.yml"
    path.write_text(yaml.safe_dump(ORDER | {"evaluation_interval": case.every, "tests": tests}))
    return path


def test_the_rule_files_are_valid() -> None:
    assert "SUCCESS" in prometheus.promtool("check", "rules", *FILES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.about}: {case.name}")
def test_what_fires_and_what_does_not(case: Case, tmp_path: Path) -> None:
    expected = {"expr": FIRING, "eval_time": case.at, "exp_samples": list(samples(case))}
    assert "SUCCESS" in prometheus.promtool("test", "rules", write(case, "promql_expr_test", expected, tmp_path))


@pytest.mark.parametrize("name", sorted({alert.name for alert in alerts()}))
def test_what_people_are_told_is_whole(name: str, tmp_path: Path) -> None:
    """Nothing is expected, so promtool prints what it got."""
    case = next(case for case in CASES if case.about == name and case.firing)
    asked = {"alertname": name, "eval_time": case.at, "exp_alerts": []}
    with pytest.raises(RuntimeError) as caught:
        prometheus.promtool("test", "rules", write(case, "alert_rule_test", asked, tmp_path))
    (told,) = re.findall(r"got:(.*)", str(caught.value), re.DOTALL)
    assert f'runbook="docs/runbooks/{name}.md"' in told
    assert not re.search(r"<error|<no value>|\{\{| {2}", re.sub(r"\s*\n\s*", "", told)), told


def test_every_alert_has_been_seen_to_fire_and_to_stay_silent() -> None:
    fired = {firing for case in CASES for firing in case.firing}
    assert fired == {(alert.name, alert.severity, *filter(None, [alert.labels.get("burn")])) for alert in alerts()}
    assert {case.about for case in CASES if not case.firing} == {alert.name for alert in alerts()}
