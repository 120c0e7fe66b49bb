"""Who may speak now: opens utterances, knows the live ones of all streams, and drains. One per server."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any, Protocol

from talkwire_pipeline import events
from talkwire_pipeline.deploy.server import Server
from talkwire_pipeline.errors import ResourceExhaustedError, TalkwireError, UnavailableError
from talkwire_pipeline.pipeline import Pipeline
from talkwire_pipeline.utterance import Utterance
from talkwire_pipeline.voice import StreamVoice
from talkwire_server.metrics import Metrics
from talkwire_server.quotas import Ledger
from talkwire_server.requests import Opening
from talkwire_server.tracing import NoTracing, Span, Tracing

log = logging.getLogger(__name__)


class Stream(Protocol):
    """What is told when the server drains."""

    def wake(self) -> None:
        """Something changed: look again."""

    def fail(self, error: TalkwireError) -> None:
        """Ends every live utterance of the stream with this error."""


class Admission:
    """The door, and the book of who is inside.

    Attributes:
        pipeline: what speaks.
        limits: the deployment's.
        metrics: where refusals and ends are counted.
        tracing: what begins the spans.
        draining: no utterance is let in any more.
        streams: open streams.
        ledger: what each key uses.
    """

    def __init__(self, pipeline: Pipeline, limits: Server, metrics: Metrics, tracing: Tracing | None = None) -> None:
        self.pipeline = pipeline
        self.limits = limits
        self.metrics = metrics
        self.tracing = tracing or NoTracing()
        self.draining = False
        self.streams: set[Stream] = set()
        self.ledger = Ledger(limits.quotas)
        self._live: dict[str, Utterance] = {}
        self._keys: dict[str, str] = {}
        self._spans: dict[str, Span] = {}
        self._empty = asyncio.Event()
        self._empty.set()
        self._aborts: set[asyncio.Task[events.Aborted]] = set()

    def open(
        self, opening: Opening, voice: StreamVoice | None, stream_live: int, key: str = "", trace: Any = None
    ) -> Utterance:
        """A new live utterance of a stream that has `stream_live` already, for the caller with this key.

        Raises the `TalkwireError` of a refusal.
        """
        try:
            utterance = self._admit(opening, voice, stream_live, key)
        except TalkwireError as error:
            self.metrics.refused(error.reason)
            raise
        span = self._spans[utterance.server_id] = self.tracing.begin(trace, {"talkwire.server_id": utterance.server_id})
        utterance.outlet.watch.on_moment = span.moment
        utterance.on_over = lambda event: self.ended(utterance, event)
        self._live[utterance.server_id] = utterance
        self._count()
        log.info("utterance started", extra={"server_id": utterance.server_id, "key": key})
        return utterance

    def _admit(self, opening: Opening, voice: StreamVoice | None, stream_live: int, key: str) -> Utterance:
        self._check(stream_live)
        self.ledger.enter(key)
        try:
            utterance = self.pipeline.open(opening.request, voice)
        except BaseException:
            self.ledger.leave(key)
            raise
        self._keys[utterance.server_id] = key
        return utterance

    def push(self, utterance: Utterance, text: str) -> None:
        """More text for a live utterance. Raises what it raises, and what the quota of its key has against it."""
        key = self._keys.get(utterance.server_id, "")
        try:
            self.ledger.check(key, len(text))
        except TalkwireError as error:
            self.metrics.refused(error.reason)
            raise
        utterance.push(text)
        self.ledger.spend(key, len(text))

    def _check(self, stream_live: int) -> None:
        if self.draining:
            raise draining()
        if len(self._live) >= self.limits.max_live_utterances:
            text = f"{len(self._live)} utterances are live, which is all that server.max_live_utterances allows"
            raise ResourceExhaustedError(text, reason="LIVE_UTTERANCES")
        if stream_live >= self.limits.max_utterances_per_stream:
            text = f"the stream has {stream_live} live utterances, all that server.max_utterances_per_stream allows"
            raise ResourceExhaustedError(text, reason="STREAM_UTTERANCES")

    def find(self, server_id: str, key: str = "") -> Utterance | None:
        """The live utterance with this id, of whichever stream; for a caller with a key, of that key."""
        if key and self._keys.get(server_id) != key:
            return None
        return self._live.get(server_id)

    def ended(self, utterance: Utterance, event: events.Event | None) -> None:
        """The utterance is over, whether or not its caller takes the end event; None: there is no caller any more.

        Idempotent.
        """
        if self._live.pop(utterance.server_id, None) is None:
            return
        self.ledger.leave(self._keys.pop(utterance.server_id))
        span = self._spans.pop(utterance.server_id)
        statistics, interactive = utterance.statistics, utterance.request.priority == 0
        self.metrics.ended(event, statistics, span.exemplar, interactive=interactive)
        span.end(event)
        self._count()
        log.info("utterance ended: %s", _describe(event), extra={"server_id": utterance.server_id})

    def abort(self, utterance: Utterance, played_samples: int | None = None) -> asyncio.Task[events.Aborted]:
        """Drops the utterance at once; the task ends with what was dropped, when the stages have let go of it.

        Its stream gets the same `Aborted` as the utterance's last event, unless an end event came before.
        """
        begun = time.monotonic()
        self.note(utterance, "abort")
        task = utterance.abort(played_samples)
        self._aborts.add(task)
        task.add_done_callback(lambda done: self._aborted(done, time.monotonic() - begun))
        return task

    def note(self, utterance: Utterance, moment: str) -> None:
        """Something happens to a live utterance that its trace shall have."""
        if span := self._spans.get(utterance.server_id):
            span.moment(moment, time.monotonic_ns())

    def _aborted(self, task: asyncio.Task[events.Aborted], took_s: float) -> None:
        self._aborts.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("an abort failed", exc_info=error)
        else:
            self.metrics.abort_s.observe(took_s)

    @property
    def live(self) -> int:
        """Utterances that are live now, of all streams."""
        return len(self._live)

    def _count(self) -> None:
        self.metrics.live.set(len(self._live))
        if self._live:
            self._empty.clear()
        else:
            self._empty.set()

    def drain(self) -> None:
        """Lets nobody in from now on. Streams without a live utterance end."""
        self.draining = True
        for stream in self.streams:
            stream.wake()

    async def empty(self) -> None:
        """Returns when no utterance is live."""
        await self._empty.wait()

    def fail_all(self, error: TalkwireError) -> None:
        """Ends every live utterance with this error."""
        for stream in list(self.streams):
            stream.fail(error)

    async def settle(self) -> None:
        """Returns when all aborts that were begun are answered."""
        await asyncio.gather(*self._aborts, return_exceptions=True)


def draining() -> UnavailableError:
    """What a caller is told while the server leaves."""
    return UnavailableError("the server is shutting down: use another, or try again", reason="DRAINING")


def _describe(event: events.Event | None) -> str:
    match event:
        case events.Finished(reason=reason, statistics=took):
            return (
                f"{reason}, {took.character_count} characters, {took.segment_count} segments, "
                f"{took.sample_count} samples, ttfa {took.ttfa_s:.3f} s, rtf {took.real_time_factor:.3f}"
            )
        case events.Aborted(generated_samples=samples):
            return f"aborted after {samples} samples"
        case events.Failed(error=error):
            return f"failed, {error.reason}"  # a message may quote the text
        case _:
            return "its caller went away"
