"""What the stages say of themselves, as metrics: asked for at every scrape, kept nowhere.

A stage that is started again counts from 0, as Prometheus expects of a counter; one that has said nothing yet has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from talkwire_pipeline import histogram
from talkwire_pipeline.messages import StageName
from talkwire_pipeline.procfs import cpu_s, resident_bytes
from talkwire_pipeline.stages import StageHealth, StageState

STAGES: tuple[StageName, ...] = get_args(StageName)
EDGES = ("talker_commands", "codec_commands", "codes", "talker_replies", "codec_replies")
"""The five edges, by the names that stages use."""
Family = GaugeMetricFamily | CounterMetricFamily


class Source(Protocol):
    """Who knows the stages: the pipeline."""

    def state(self, stage: StageName) -> StageState:
        """A stage's state."""

    def stats(self, stage: StageName) -> dict[str, float]:
        """What it said last."""

    def health(self, stage: StageName) -> StageHealth:
        """How its process is."""

    @property
    def preempted(self) -> int:
        """Segments that gave way so far."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A metric out of what a stage says.

    Attributes:
        key: its name among the stage's figures.
        kind: what it is.
        text: its help.
    """

    key: str
    kind: Literal["counter", "gauge", "histogram"]
    text: str

    @property
    def name(self) -> str:
        """Without what Prometheus puts behind a counter's."""
        return self.key.removesuffix("_total")


TALKER = (
    Figure("generations_total", "counter", "Segments that the talker opened."),
    Figure("rows_total", "counter", "Code rows that it made; 25 are a second of audio."),
    Figure("steps_total", "counter", "Steps of the model."),
    Figure("step_seconds", "histogram", "Duration of a step."),
    Figure("step_slots", "histogram", "Generations that a step was for."),
    Figure("faults_total", "counter", "Steps that failed."),
    Figure("free_slots", "gauge", "Slots that no generation holds."),
    Figure("kv_used_ratio", "gauge", "Share of the keys' and values' memory in use."),
    Figure("preemptions_total", "counter", "Generations that the runner threw out and computed again."),
    Figure("prefix_queries_total", "counter", "Prompt ids that were looked up in the prefix cache."),
    Figure("prefix_hits_total", "counter", "Prompt ids that were found there."),
    Figure("references", "gauge", "Voice references that the talker holds."),
    Figure("free_reference_rows", "gauge", "Rows of references that there is room for."),
)
"""`talkwire_talker_*`."""
CODEC = (
    Figure("frames_total", "counter", "Frames decoded and sent, without context."),
    Figure("calls_total", "counter", "Calls of the decoder."),
    Figure("call_seconds", "histogram", "Duration of a call."),
    Figure("call_windows", "histogram", "Windows decoded in a call."),
    Figure("window_frames", "histogram", "Frames of a call's windows, context included."),
    Figure("faults_total", "counter", "Generations that failed in a call."),
    Figure("queued_frames", "gauge", "Frames that came and were not decoded yet."),
    Figure("starved_generations", "gauge", "Generations whose callers must take audio before more is decoded."),
    Figure("call_load", "gauge", "Duration of calls, by that of the same calls at the start."),
)
"""`talkwire_codec_*`."""
EDGE = (
    Figure("messages_total", "counter", "Messages sent."),
    Figure("bytes_total", "counter", "Bytes sent, headers included."),
    Figure("stalls_total", "counter", "Times that a message found no room."),
    Figure("stall_seconds_total", "counter", "Time during which messages found no room."),
    Figure("wait_seconds_total", "counter", "Time from sending to receiving, of all messages together."),
    Figure("used_ratio", "gauge", "Share of the ring in use when something was last sent."),
    Figure("high_water_ratio", "gauge", "The largest share so far."),
)
"""`talkwire_edge_*{edge}`."""


_OWN: Mapping[StageName, tuple[Figure, ...]] = {"talker": TALKER, "codec": CODEC}


class StageCollector(Collector):
    """Collects from one source."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def describe(self) -> Iterator[Metric]:
        """All that may be collected, without values."""
        return self._families({stage: {} for stage in STAGES})

    def collect(self) -> Iterator[Metric]:
        """What is so now."""
        return self._families({stage: self._source.stats(stage) for stage in STAGES})

    def _families(self, said: Mapping[StageName, Mapping[str, float]]) -> Iterator[Metric]:
        yield CounterMetricFamily(
            "talkwire_preempted_segments", "Batch segments that gave way.", self._source.preempted
        )
        yield from self._both(said)
        for stage, figures in _OWN.items():
            for figure in figures:
                yield _family(f"talkwire_{stage}_{figure.name}", figure, said[stage])
        everything = {**said["talker"], **said["codec"]}
        for figure in EDGE:
            family = _plain(f"talkwire_edge_{figure.name}", figure, ("edge",))
            for edge in EDGES:
                _add(family, (edge,), everything.get(f"edge:{edge}:{figure.key}"))
            yield family

    def _both(self, said: Mapping[StageName, Mapping[str, float]]) -> Iterator[Metric]:
        """What is known of either stage, whether or not it says anything."""
        for name, kind, text, ask in _PROCESSES:
            family = _plain(f"talkwire_stage_{name}", Figure(name, kind, text), ("stage",))
            for stage in STAGES:
                _add(family, (stage,), ask(self._source, stage, said[stage]))
            yield family


Ask = Callable[[Source, StageName, Mapping[str, float]], float | None]
_PROCESSES: tuple[tuple[str, Literal["counter", "gauge"], str, Ask], ...] = (
    ("up", "gauge", "Whether a stage is ready.", lambda source, stage, _: source.state(stage) == "ready"),
    (
        "generations",
        "gauge",
        "Generations that a stage holds, when it last said.",
        lambda _, __, said: said.get("live_generations", 0.0),
    ),
    ("restarts", "counter", "Times that it was started again.", lambda source, stage, _: source.health(stage).restarts),
    (
        "heartbeat_age_seconds",
        "gauge",
        "For how long it has owed an answer to a ping; 0 while none is due.",
        lambda source, stage, _: source.health(stage).silence_s,
    ),
    (
        "resident_memory_bytes",
        "gauge",
        "Resident memory of its process.",
        lambda source, stage, _: resident_bytes(source.health(stage).pid),
    ),
    (
        "cpu_seconds",
        "counter",
        "Processor time of its process.",
        lambda source, stage, _: cpu_s(source.health(stage).pid),
    ),
)


def _plain(name: str, figure: Figure, labels: tuple[str, ...] = ()) -> Family:
    kind = CounterMetricFamily if figure.kind == "counter" else GaugeMetricFamily
    return kind(name, figure.text, labels=labels)


def _add(family: Family, labels: tuple[str, ...], value: float | None) -> None:
    if value is not None:
        family.add_metric(labels, float(value))


def _family(name: str, figure: Figure, said: Mapping[str, float]) -> Metric:
    if figure.kind == "histogram":
        family = HistogramMetricFamily(name, figure.text)
        if (counted := histogram.read(said, figure.key)) is not None:
            counts, total = counted
            family.add_metric((), [(_bound(bound), count) for bound, count in counts], total)
        return family
    plain = _plain(name, figure)
    _add(plain, (), said.get(figure.key))
    return plain


def _bound(text: str) -> str:
    return "+Inf" if text == "inf" else str(float(text))
