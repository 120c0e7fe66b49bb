from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest

from talkwire_pipeline import events, histogram
from talkwire_pipeline.errors import ResourceExhaustedError
from talkwire_pipeline.histogram import COUNTS, Histogram
from talkwire_pipeline.messages import StageName
from talkwire_pipeline.player import Player
from talkwire_pipeline.procfs import cpu_s, resident_bytes, shared_memory_bytes
from talkwire_pipeline.stages import StageHealth, StageState
from talkwire_server.metrics import Metrics
from talkwire_server.metrics.stages import EDGES, StageCollector
from tools import metrics_table

GONE = 2**22 + 1
"""No process: numbers end at 2 ** 22."""


# ---- histograms of stages


@given(st.lists(st.floats(0, 1000)))
def test_a_histogram_counts_every_value_once(values: list[float]) -> None:
    counted = Histogram("seen", COUNTS)
    for value in values:
        counted.observe(value)
    counts, total = histogram.read({**counted.stats(), "seen_too:le:1": 5.0}, "seen") or ([], 0.0)
    assert total == pytest.approx(sum(values))
    assert [(bound, count) for bound, count in counts] == [
        (f"{bound:g}", sum(value <= bound for value in values)) for bound in (*COUNTS, float("inf"))
    ]


def test_what_was_never_said_is_no_histogram() -> None:
    assert histogram.read({"seen": 1.0}, "seen") is None


# ---- what stages say


class Said:
    """Two stages, of which the codec is down."""

    def __init__(self) -> None:
        steps = Histogram("step_seconds", (0.01, 0.1))
        steps.observe(0.05)
        self.talker = {
            "rows_total": 7.0,
            "live_generations": 2.0,
            "edge:codes:bytes_total": 700.0,
            "edge:talker_replies:wait_seconds_total": 0.5,
            **steps.stats(),
        }

    preempted = 4

    def state(self, stage: StageName) -> StageState:
        return "ready" if stage == "talker" else "down"

    def stats(self, stage: StageName) -> dict[str, float]:
        return self.talker if stage == "talker" else {}

    def health(self, stage: StageName) -> StageHealth:
        return StageHealth(os.getpid(), 1, 0.25) if stage == "talker" else StageHealth(GONE, 3)


@pytest.fixture
def page() -> str:
    registry = CollectorRegistry()
    registry.register(StageCollector(Said()))
    return generate_latest(registry).decode()


@pytest.mark.parametrize(
    "line",
    [
        'talkwire_stage_up{stage="talker"} 1.0',
        'talkwire_stage_up{stage="codec"} 0.0',
        'talkwire_stage_restarts_total{stage="codec"} 3.0',
        'talkwire_stage_heartbeat_age_seconds{stage="talker"} 0.25',
        'talkwire_stage_generations{stage="talker"} 2.0',
        "talkwire_talker_rows_total 7.0",
        "talkwire_preempted_segments_total 4.0",
        'talkwire_talker_step_seconds_bucket{le="0.01"} 0.0',
        'talkwire_talker_step_seconds_bucket{le="0.1"} 1.0',
        'talkwire_talker_step_seconds_bucket{le="+Inf"} 1.0',
        "talkwire_talker_step_seconds_sum 0.05",
        'talkwire_edge_bytes_total{edge="codes"} 700.0',
        'talkwire_edge_wait_seconds_total{edge="talker_replies"} 0.5',
    ],
)
def test_what_a_stage_said_is_shown(page: str, line: str) -> None:
    assert line in page.splitlines()


def test_what_a_stage_did_not_say_is_not_made_up(page: str) -> None:
    assert not [line for line in page.splitlines() if line.startswith("talkwire_codec")]
    assert 'resident_memory_bytes{stage="talker"}' in page
    assert 'resident_memory_bytes{stage="codec"}' not in page


def test_a_process_that_is_gone_has_no_figures() -> None:
    assert resident_bytes(GONE) is cpu_s(GONE) is resident_bytes(0) is None
    assert (resident_bytes(os.getpid()) or 0) > 1 << 20
    assert (cpu_s(os.getpid()) or 0) > 0


def test_shared_memory_is_that_of_this_process_and_counted_once() -> None:
    before = shared_memory_bytes()
    memory = os.memfd_create("mine")
    again = os.dup(memory)
    os.ftruncate(memory, 12_345)
    assert shared_memory_bytes() == before + 12_345
    os.close(memory)
    os.close(again)
    assert shared_memory_bytes() == before


# ---- how utterances ended


def spoken(**values: float) -> events.Statistics:
    return events.Statistics(24_000, 1, 10, ttfa_s=0.1, first_payload_s=0.2, real_time_factor=0.3, **values)


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


@pytest.mark.parametrize(("underrun_s", "ok_at_20", "ok_at_100"), [(0, 1, 1), (0.05, 0, 1), (0.3, 0, 0)])
def test_continuity_by_threshold(metrics: Metrics, underrun_s: float, ok_at_20: int, ok_at_100: int) -> None:
    statistics = spoken(longest_underrun_s=underrun_s, underrun_s=underrun_s)
    metrics.ended(events.Finished("complete", statistics), statistics)
    assert value(metrics, "talkwire_continuity_total", ok="true", threshold_ms="20") == ok_at_20
    assert value(metrics, "talkwire_continuity_total", ok="true", threshold_ms="100") == ok_at_100
    assert value(metrics, "talkwire_continuity_total", ok="false", threshold_ms="100") == 1 - ok_at_100
    assert value(metrics, "talkwire_underrun_seconds_total") == pytest.approx(underrun_s)


@pytest.mark.parametrize("event", [None, events.Aborted("a", "b", 1), events.Failed(ResourceExhaustedError("x"))])
def test_what_was_heard_counts_however_it_ended(metrics: Metrics, event: events.Event | None) -> None:
    metrics.ended(event, spoken())
    assert value(metrics, "talkwire_ttfa_seconds_count") == 1
    assert value(metrics, "talkwire_real_time_factor_count") == 0


def test_batch_counts_for_no_player(metrics: Metrics) -> None:
    statistics = spoken(longest_underrun_s=5.0, underrun_s=5.0)
    metrics.ended(events.Finished("complete", statistics), statistics, interactive=False)
    assert value(metrics, "talkwire_ttfa_seconds_count") == 0
    assert value(metrics, "talkwire_continuity_total", ok="false", threshold_ms="100") == 0
    assert value(metrics, "talkwire_real_time_factor_count") == 1


def test_who_heard_nothing_has_no_ttfa(metrics: Metrics) -> None:
    metrics.ended(None, events.Statistics(0, 1, 10, ttfa_s=0, first_payload_s=0, real_time_factor=0))
    assert value(metrics, "talkwire_ttfa_seconds_count") == 0
    assert value(metrics, "talkwire_continuity_total", ok="true", threshold_ms="100") == 0


# ---- underruns


@pytest.mark.parametrize(
    ("asked_ns", "now_ns", "outstanding", "late_ns"),
    [
        (5, 30, 0, 20),  # asked for in time, came late
        (5, 10, 0, 0),  # came in time
        (15, 30, 0, 0),  # asked for when it was dry already
        (5, 30, 1, 0),  # there was audio that nobody took
    ],
)
def test_a_player_is_late_by_our_fault_only(asked_ns: int, now_ns: int, outstanding: int, late_ns: int) -> None:
    assert Player(received=outstanding, dry_at_ns=10).late_ns(now_ns, asked_ns) == late_ns


def test_before_the_first_audio_no_player_is_late() -> None:
    assert Player().late_ns(30, 5) == 0


# ---- the page


def test_the_page_of_metrics_is_that_of_the_code() -> None:
    assert metrics_table.PAGE.read_text(encoding="utf-8") == metrics_table.page()


def test_every_metric_is_in_base_units_and_every_edge_is_named() -> None:
    for each in metrics_table.catalogue():
        assert each.name.startswith("talkwire_")
        assert (each.kind == "counter") == each.name.endswith("_total")
        assert not each.name.removesuffix("_total").endswith(("_ms", "_s", "_kb", "_percent"))
    assert len(set(EDGES)) == 5
