"""The server's figures, in a registry of its own: two servers in one process do not share any."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    PlatformCollector,
    ProcessCollector,
    make_wsgi_app,
)
from prometheus_client.metrics import MetricWrapperBase

from talkwire_pipeline import events
from talkwire_pipeline.deploy import Deploy
from talkwire_pipeline.deploy.show import features
from talkwire_pipeline.geometry import SAMPLE_RATE_HZ
from talkwire_pipeline.pipeline import Pipeline
from talkwire_pipeline.procfs import shared_memory_bytes
from talkwire_server.metrics.stages import StageCollector

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

_TTFA_S = (0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10)
_FACTOR = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.8, 1, 1.5, 2, 5)
_PAYLOAD_S = (0.04, 0.08, 0.16, 0.24, 0.32, 0.48, 0.64, 1, 2, 5)
_UTTERANCE_S = (0.1, 0.25, 0.5, 1, 2, 3, 5, 10, 20, 30, 60, 120, 300, 600)
_WAIT_S = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
_RPC_S = (0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3600)
CONTINUITY_MS = (20, 100)
"""How long a player may be dry in an utterance that counts as continuous, by `threshold_ms`."""
_ABORT_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2)
_SUFFIXES = {"counter": "_total", "info": "_info"}
_GEOMETRY_PARTS = {
    "initial": "initial",
    "chunk": "steady",
    "left_context": "left",
    "right_holdback": "holdback",
    "initial_right_holdback": "initial_holdback",
}
# What is known is there with 0 from the start: of a series that begins with 1, Prometheus does not see the first event.
_ENDS = (*get_args(events.FinishReason), "aborted", "failed", "disconnected")
_REFUSALS = (
    *("LIVE_UTTERANCES", "STREAM_UTTERANCES", "QUEUE_FULL", "QUOTA", "STAGE_DOWN", "DRAINING", "STREAM_AGE"),
    *("INVALID_ARGUMENT", "VOICE_NOT_FOUND", "TOKEN_MISSING", "TOKEN_UNKNOWN", "METHOD_NOT_ALLOWED"),
    *("TOKEN_INVALID", "TOKEN_EXPIRED", "CONNECTION_STREAMS", "KEY_STREAMS"),
)
_FAILURES = ("QUEUE_FULL", "SLOW_READER", "DEADLINE_EXCEEDED", "STAGE_DOWN", "INTERNAL", "INVALID_ARGUMENT", "DRAINING")


@dataclass(frozen=True, slots=True)
class Described:
    """A metric without its values: name as in a query without suffixes of histograms, kind, labels, help."""

    name: str
    kind: str
    labels: tuple[str, ...]
    text: str


class Metrics:
    """What is counted and measured. Units are in the names.

    Attributes:
        registry: what `/metrics` shows.
        streams: open RPCs that carry utterances.
        live: utterances without an end event.
        abort_s: time from an abort to its answer, by the server's clock.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._families: list[MetricWrapperBase | StageCollector] = []
        self._ttfa_s = self._histogram("ttfa_seconds", "First text in to first audio out.", _TTFA_S)
        self._factor = self._histogram("real_time_factor", "First text in to last audio out, by its duration.", _FACTOR)
        self._utterance_s = self._histogram("utterance_seconds", "First text in to last audio out.", _UTTERANCE_S)
        self._wait_s = self._histogram("queue_wait_seconds", "What a first segment waited for a slot.", _WAIT_S)
        self._gap_s = self._histogram("chunk_gap_seconds", "Longest gap between chunks of an utterance.", _WAIT_S)
        self._payload_s = self._histogram("first_payload_seconds", "Duration of the first audio event.", _PAYLOAD_S)
        self.abort_s = self._histogram("abort_seconds", "From an abort to its answer.", _ABORT_S)
        self._ended = self._counter("utterances", "Utterances by how they ended.", "end")
        self._refused = self._counter("refusals", "Refused starts, texts and calls by reason.", "reason")
        self._failed = self._counter("failures", "Failed utterances by reason.", "reason")
        self._audio_s = self._counter("audio_seconds", "Audio handed to callers.")
        self._characters = self._counter("characters", "Characters of finished utterances.")
        self._underrun_s = self._counter("underrun_seconds", "Time that players without a buffer were dry.")
        self._continuous = self._counter(
            "continuity", "Utterances with audio, by whether a player was dry for the threshold.", "ok", "threshold_ms"
        )
        self._rpcs = self._counter("rpcs", "RPCs that ended, by method and status code.", "method", "code")
        self._reread = self._counter("rereads", "Changed files of keys and certificates, by use.", "what", "ok")
        self._rpc_s = self._histogram("rpc_seconds", "Duration of RPCs.", _RPC_S, "method")
        self.live = self._gauge("live_utterances", "Utterances without an end event.")
        self.streams = self._gauge("streams", "Open RPCs that carry utterances.")
        for counter, reasons in ((self._ended, _ENDS), (self._refused, _REFUSALS), (self._failed, _FAILURES)):
            for reason in reasons:
                counter.labels(reason)
        for ok in ("true", "false"):
            for threshold_ms in CONTINUITY_MS:
                self._continuous.labels(ok, threshold_ms)
            for what in ("tls", "tokens"):
                self._reread.labels(what, ok)
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        histogram = Histogram(f"talkwire_{name}", text, labels, buckets=buckets, registry=self.registry)
        self._families.append(histogram)
        return histogram

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        counter = Counter(f"talkwire_{name}", text, labels, registry=self.registry)
        self._families.append(counter)
        return counter

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        gauge = Gauge(f"talkwire_{name}", text, labels, registry=self.registry)
        self._families.append(gauge)
        return gauge

    def catalogue(self) -> list[Described]:
        """Every metric of ours, whether or not it has a value; those of the pipeline once it is watched."""
        found = []
        for family in self._families:
            for metric in family.describe():
                labels = getattr(metric, "_labelnames", ()) or getattr(family, "_labelnames", ())
                name = metric.name + _SUFFIXES.get(metric.type, "")
                found.append(Described(name, metric.type, tuple(labels), metric.documentation))
        return sorted(found, key=lambda each: each.name)

    def wsgi_app(self) -> WSGIApplication:
        """The `/metrics` page."""
        return make_wsgi_app(self.registry)

    def describe(self, deploy: Deploy, version: str) -> None:
        """Shows what runs: `talkwire_build_info`, `talkwire_geometry_frames` and `talkwire_runner_feature`."""
        build = Info("talkwire_build", "What runs.", registry=self.registry)
        self._families.append(build)
        build.info(
            {
                "version": version,
                "profile": deploy.profile,
                "platform": deploy.platform,
                "runner": deploy.runner.model_runner,
                "model": deploy.model.name or deploy.model.checkpoint,
            }
        )
        frames = self._gauge("geometry_frames", "The default geometry.", "part")
        for part, name in _GEOMETRY_PARTS.items():
            frames.labels(part).set(getattr(deploy.geometry, name))
        on = self._gauge("runner_feature", "Whether the runner does this.", "feature")
        for name, value in features(deploy).items():
            on.labels(name).set(value)

    def watch(self, pipeline: Pipeline) -> None:
        """Shows the pipeline: its queue, its slots, its stages and edges, asked at every scrape; and their limits."""
        self._gauge("queued_segments", "Segments that wait for a slot.").set_function(lambda: pipeline.queued)
        self._gauge("busy_slots", "Slots of the talker in use.").set_function(lambda: pipeline.busy)
        stages, limits = pipeline.deploy.stages, pipeline.deploy.server
        capacity = self._gauge("capacity", "What there may be of each at the same time.", "of")
        capacity.labels("utterances").set(limits.max_live_utterances)
        capacity.labels("queued_segments").set(limits.max_queued_segments)
        capacity.labels("talker_slots").set(stages.talker.max_num_seqs)
        capacity.labels("codec_slots").set(stages.codec.max_num_seqs)
        shared = self._gauge("shared_memory_bytes", "Size of the shared memory that the server has open.")
        shared.set_function(shared_memory_bytes)
        stages_say = StageCollector(pipeline)
        self.registry.register(stages_say)
        self._families.append(stages_say)

    def refused(self, reason: str) -> None:
        """A start, a text, or a whole call, was refused."""
        self._refused.labels(reason).inc()

    def reread(self, what: str, ok: bool) -> None:
        """Files that had changed were read again: `ok` where they are in force now."""
        self._reread.labels(what, str(ok).lower()).inc()

    def audio_sent(self, samples: int) -> None:
        """`samples` at 24 kHz were handed to a caller."""
        self._audio_s.inc(samples / SAMPLE_RATE_HZ)

    def rpc_ended(self, method: str, code: str, took_s: float) -> None:
        """An RPC ended with this status code."""
        self._rpcs.labels(method, code).inc()
        self._rpc_s.labels(method).observe(took_s)

    def ended(
        self,
        event: events.Event | None,
        statistics: events.Statistics,
        exemplar: dict[str, str] | None = None,
        interactive: bool = True,
    ) -> None:
        """An utterance ended with this event; None: its caller went away. `exemplar` leads to its trace.

        Nobody listens to batch while it is made: what a player notices is that of interactive ones.
        """
        match event:
            case events.Finished(reason=reason):
                self._ended.labels(reason).inc()
                self._finished(statistics)
            case events.Aborted():
                self._ended.labels("aborted").inc()
            case events.Failed(error=error):
                self._ended.labels("failed").inc()
                self._failed.labels(error.reason).inc()
            case _:
                self._ended.labels("disconnected").inc()
        if interactive and statistics.first_payload_s:
            self._spoke(statistics, exemplar)

    def _finished(self, statistics: events.Statistics) -> None:
        self._characters.inc(statistics.character_count)
        if statistics.sample_count:
            self._factor.observe(statistics.real_time_factor)
            self._utterance_s.observe(statistics.duration_s)

    def _spoke(self, statistics: events.Statistics, exemplar: dict[str, str] | None) -> None:
        """Of an utterance that gave audio, however it ended."""
        self._ttfa_s.observe(statistics.ttfa_s, exemplar)
        self._payload_s.observe(statistics.first_payload_s)
        self._wait_s.observe(statistics.queue_wait_s, exemplar)
        self._gap_s.observe(statistics.longest_gap_s, exemplar)
        self._underrun_s.inc(statistics.underrun_s)
        for threshold_ms in CONTINUITY_MS:
            ok = statistics.longest_underrun_s * 1e3 <= threshold_ms
            self._continuous.labels(str(ok).lower(), threshold_ms).inc()
