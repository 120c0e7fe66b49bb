"""The server's figures, in a registry of its own: two servers in one process do not share any."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, make_wsgi_app

from talkwire_pipeline import events
from talkwire_pipeline.deploy import Deploy
from talkwire_pipeline.deploy.show import features
from talkwire_pipeline.geometry import SAMPLE_RATE_HZ

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

_TTFA_S = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10)
_FACTOR = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.8, 1, 1.5, 2, 5)
_PAYLOAD_S = (0.04, 0.08, 0.16, 0.24, 0.32, 0.48, 0.64, 1, 2, 5)
_ABORT_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2)
_GEOMETRY_PARTS = {
    "initial": "initial",
    "chunk": "steady",
    "left_context": "left",
    "right_holdback": "holdback",
    "initial_right_holdback": "initial_holdback",
}
_ENDS = (*get_args(events.FinishReason), "aborted", "failed", "disconnected")


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
        self._ttfa_s = self._histogram("ttfa_seconds", "First text in to first audio out.", _TTFA_S)
        self._factor = self._histogram("real_time_factor", "First text in to last audio out, by its duration.", _FACTOR)
        self._payload_s = self._histogram("first_payload_seconds", "Duration of the first audio event.", _PAYLOAD_S)
        self.abort_s = self._histogram("abort_seconds", "From an abort to its answer.", _ABORT_S)
        self._ended = self._counter("utterances", "Utterances by how they ended.", "end")
        self._refused = self._counter("refusals", "Refused starts by reason.", "reason")
        self._failed = self._counter("failures", "Failed utterances by reason.", "reason")
        self._audio_s = self._counter("audio_seconds", "Audio handed to callers.")
        self._characters = self._counter("characters", "Characters of finished utterances.")
        self.live = self._gauge("live_utterances", "Utterances without an end event.")
        self._stages = self._gauge("stage_up", "Whether a stage is ready.", "stage")
        self._held = self._gauge("stage_generations", "Generations that a stage holds, when it last said.", "stage")
        self.streams = self._gauge("streams", "Open RPCs that carry utterances.")
        for end in _ENDS:
            self._ended.labels(end)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(f"talkwire_{name}", text, buckets=buckets, registry=self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"talkwire_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"talkwire_{name}", text, labels, registry=self.registry)

    def wsgi_app(self) -> WSGIApplication:
        """The `/metrics` page."""
        return make_wsgi_app(self.registry)

    def describe(self, deploy: Deploy, version: str) -> None:
        """Shows what runs: `talkwire_build_info`, `talkwire_geometry_frames` and `talkwire_runner_feature`."""
        build = Info("talkwire_build", "What runs.", registry=self.registry)
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

    def watch_queue(self, length: Callable[[], int]) -> None:
        """Shows how many segments wait for a slot; `length` is asked at every scrape."""
        self._gauge("queued_segments", "Segments that wait for a slot.").set_function(length)

    def watch_slots(self, busy: Callable[[], int]) -> None:
        """Shows how many slots of the talker are in use; `busy` is asked at every scrape."""
        self._gauge("busy_slots", "Slots of the talker in use.").set_function(busy)

    def watch_stage(self, stage: str, up: Callable[[], bool], held: Callable[[], float]) -> None:
        """Shows whether a stage is ready and what it holds; `up` and `held` are asked at every scrape."""
        self._stages.labels(stage).set_function(up)
        self._held.labels(stage).set_function(held)

    def refused(self, reason: str) -> None:
        """A start was refused."""
        self._refused.labels(reason).inc()

    def audio_sent(self, samples: int) -> None:
        """`samples` at 24 kHz were handed to a caller."""
        self._audio_s.inc(samples / SAMPLE_RATE_HZ)

    def ended(self, event: events.Event | None) -> None:
        """An utterance ended with this event; None: its caller went away."""
        match event:
            case events.Finished(reason=reason, statistics=statistics):
                self._ended.labels(reason).inc()
                self._observe(statistics)
            case events.Aborted():
                self._ended.labels("aborted").inc()
            case events.Failed(error=error):
                self._ended.labels("failed").inc()
                self._failed.labels(error.reason).inc()
            case _:
                self._ended.labels("disconnected").inc()

    def _observe(self, statistics: events.Statistics) -> None:
        self._characters.inc(statistics.character_count)
        if statistics.sample_count:
            self._ttfa_s.observe(statistics.ttfa_s)
            self._factor.observe(statistics.real_time_factor)
            self._payload_s.observe(statistics.first_payload_s)
