"""One utterance: text increments in, events out, exactly one end event. asyncio, no torch, no gRPC."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable

import numpy as np
import numpy.typing as npt

from talkwire_pipeline.errors import InvalidArgumentError, TalkwireError, TimedOutError
from talkwire_pipeline.events import (
    Aborted,
    Audio,
    Event,
    Failed,
    Finished,
    FinishReason,
    Flushed,
    Span,
    Started,
    Statistics,
    Timing,
)
from talkwire_pipeline.generation import Generation
from talkwire_pipeline.geometry import FRAME_RATE_HZ, SAMPLES_PER_FRAME, Geometry
from talkwire_pipeline.host import Host
from talkwire_pipeline.messages import TalkerDone
from talkwire_pipeline.outlet import Flushes, Outlet, listen, slow_reader, too_late
from talkwire_pipeline.request import UtteranceRequest
from talkwire_pipeline.sampling import Sampling
from talkwire_pipeline.text.segmenter import Segment
from talkwire_pipeline.timers import Timers
from talkwire_pipeline.transcript import Transcript
from talkwire_pipeline.voice import StreamVoice
from talkwire_pipeline.words import word_spans

log = logging.getLogger(__name__)

RELEASE_TIMEOUT_S = 1.0
"""An abort is answered after so long even if a stage has not said that it let go."""


class Utterance:
    """One piece of speech. Made by `Pipeline.open`.

    A caller pushes text and takes events, either by `take` and `outlet.on_event` or by `async for`, which also gives
    the credit. It is over with its end event; one that is dropped before must be aborted.

    Attributes:
        server_id: 32 hexadecimal digits, random.
        request: what was asked for.
        sampling: the values in force, the seed included.
        geometry: the shape in force.
        running: whether a segment has been opened.
        outlet: what waits to be taken; its `on_event` is called whenever `take` may have something.
        on_over: called with the end event when there is one; it may not have been taken yet.
    """

    def __init__(
        self,
        host: Host,
        server_id: str,
        request: UtteranceRequest,
        sampling: Sampling,
        geometry: Geometry,
        voice: StreamVoice,
    ) -> None:
        self.server_id = server_id
        self.request = request
        self.sampling = sampling
        self.geometry = geometry
        self.running = False
        self.on_over: Callable[[Event], None] = lambda _: None
        self._host = host
        self._voice = voice
        self._continuity = request.continuity or host.deploy.text.continuity
        self._segmenter = host.frontend.segmenter(request.language)
        self._text = Transcript(host.deploy.text.max_utterance_chars)
        self._segments: deque[Segment] = deque()  # cut, and not on their way
        self._parts: deque[Generation] = deque()  # on their way, in order; the first one's audio goes out
        self._flushes = Flushes()
        self._cut = 0
        self._spoken = 0
        self._started = 0
        self._generated = 0
        self._text_over = False
        self._complete = False  # all is emitted; what is left is to take it
        self._reason: FinishReason = "complete"
        self._muted = False
        self._end: Event | None = None
        self._abort: asyncio.Task[Aborted] | None = None
        self.outlet = Outlet()
        self._timers = Timers()
        self.outlet.emit(Started(server_id, sampling.seed, geometry, host.deploy.runner.model_runner))
        limit_s = request.timeout_s or host.deploy.server.utterance_timeout_s
        self._timers.set("timeout_s", limit_s, lambda: self._time_out("timeout_s", limit_s))

    # ---- the caller's side: text in

    def push(self, text: str) -> None:
        """Appends text; nothing is changed by none.

        Raises `InvalidArgumentError` for text that cannot be taken; nothing of it is taken then. A control token
        that is not known fails the utterance instead, since it may have come in pieces.
        """
        if self._muted or self._text_over or not text:
            return
        self._host.frontend.check(text)
        self._text.append(text)
        if text.strip():
            self._hear()
        self._accept(lambda: self._segmenter.feed(text))
        self._restart_idle_timer()

    def _hear(self) -> None:
        """Speakable text came."""
        if self.outlet.watch.hear() and (limit_s := self.request.first_audio_timeout_s) is not None:
            self._timers.set("first_audio", limit_s, lambda: self._time_out("first_audio_timeout_s", limit_s))

    def flush(self) -> None:
        """Speaks what is there; `Flushed` follows its last audio.

        Raises `ResourceExhaustedError` where too many wait for their `Flushed` to be taken.
        """
        if self._muted or self._text_over:
            return
        self._flushes.ask()
        self._timers.cancel("idle")
        self._accept(self._segmenter.flush)
        self._flushes.wait(self._cut)
        self._settle()

    def end(self) -> None:
        """No more text. Idempotent."""
        if self._muted or self._text_over:
            return
        self._timers.cancel("idle")
        self._accept(self._segmenter.end)
        self._text_over = True
        self._settle()

    def abort(self, played_samples: int | None = None) -> asyncio.Task[Aborted]:
        """Drops the utterance: nothing of it comes from now on but `Aborted`, once both stages have let go of it.

        `played_samples`, at 24 kHz, splits the text into spoken and unspoken; None, or more: all that was taken.
        Idempotent; an utterance that is over stays as it is, and the answer is what it would have been.
        """
        if self._abort is None:
            played = self.outlet.played(played_samples)
            generations = self._mute()
            self._abort = asyncio.get_running_loop().create_task(self._finish_abort(played, generations))
        return self._abort

    # ---- the caller's side: events out

    def take(self) -> Event | None:
        """The next event; None: there is none now.

        `Finished` (`Failed` where nothing was spoken) is made when it is taken: until then an abort is in time.
        """
        if not self.outlet and self._complete and not self._muted:
            self._finish()
        event = self.outlet.take()
        if isinstance(event, Audio):
            self._timers.cancel("first_audio")
        elif isinstance(event, Flushed):
            self._flushes.taken()
        return event

    def credit(self, samples: int) -> None:
        """The caller is done with so many samples of the audio it took: as much more may be decoded."""
        for generation, paid in self.outlet.credit(samples):
            self._host.credit(generation, paid)
        self._timers.cancel("reader")
        self._watch_reader()
        self._advance()

    def _watch_reader(self) -> None:
        """A caller that has audio to take must take some of it now and then."""
        if self.outlet.owed and not self._muted and "reader" not in self._timers:
            limit_s = self._host.deploy.server.slow_reader_timeout_s
            self._timers.set("reader", limit_s, lambda: self.fail(slow_reader(limit_s)))

    def __aiter__(self) -> AsyncIterator[Event]:
        """All events up to the end event, with their credit; leaving early aborts the utterance."""
        return listen(self)

    # ---- segments to the talker

    def _accept(self, cut: Callable[[], Iterable[Segment]]) -> None:
        """Takes what the segmenter gives; its refusals fail the utterance."""
        try:
            segments = list(cut())
        except InvalidArgumentError as error:
            self.fail(error)
            return
        self._cut += len(segments)
        self._spoken += sum(segment.speakable for segment in segments)
        self._segments.extend(segments)
        self._advance()

    def _advance(self) -> None:
        """Lets the next segment wait for a slot, if the one before has left the talker and the caller keeps up."""
        if self._muted or (self._parts and self._parts[-1].samples is None):
            return
        if self.outlet.player.outstanding > self._host.credit_samples // 2:
            return
        while self._segments:
            segment = self._segments.popleft()
            if segment.speakable:
                self._submit(segment)
                return
            silent = Generation(self, segment, codec_over=True)
            self._place(silent, 0)
            self._parts.append(silent)
        self._settle()

    def _submit(self, segment: Segment) -> None:
        try:
            self._host.check(self.request.priority, math.inf if self.running else self._timers.left_s("first_audio"))
        except TalkwireError as error:
            self.fail(error)
            return
        generation = Generation(self, segment)
        self._parts.append(generation)
        self._host.submit(generation)

    def dry_ns(self) -> int:
        """When the player runs dry without the next segment; 0: nothing is playing."""
        coming = sum(part.coming for part in self._parts)
        return self.outlet.player.dry_ns(time.monotonic_ns(), coming)

    def open_generation(self, generation: Generation) -> bool:
        """A slot is free for it. False: it needs none, since it is silent, or could not be opened and has failed."""
        if generation.place is None:
            generation.place = self._started, self._voice.reference(self._continuity)
            self._started += 1
        try:
            if not self.running and generation.waited and self._timers.left_s("first_audio") < self._host.first_audio_s:
                raise too_late(self.request.first_audio_timeout_s)
            opened = self._host.open(generation)
        except TalkwireError as error:
            self.fail(error)
            return False
        if opened:
            self.running = True
            self.outlet.watch.open((generation.opened_ns - generation.queued_ns) / 1e9)
        else:
            self._place(generation, 0)
            generation.codec_over = True
            self._advance()
        return opened

    def _place(self, generation: Generation, frames: int) -> Span:
        """How long a segment is: its place in the audio is known."""
        generation.set_frames(frames)
        segment = generation.segment
        return self._text.spoken(segment.start, segment.end, frames * SAMPLES_PER_FRAME)

    # ---- from the stages

    def talker_done(self, generation: Generation, message: TalkerDone) -> None:
        """All rows of a segment are made: its place in the audio is known, and the next one may follow."""
        if self._muted:
            return
        self.outlet.watch.row(message.first_row_ns)
        if message.reason == "eos":
            self._voice.spoken(self._continuity, message.codes, generation.body.text)
        elif message.reason != "abort":
            self._reason = message.reason
        span = self._place(generation, len(message.codes))
        words = word_spans(generation.segment, generation.body, span.start_sample, span.end_sample)
        self._text.words.extend(words)
        self.outlet.emit(Timing((span, *words)))
        self._check_length()
        self._advance()
        self._settle()

    def _check_length(self) -> None:
        """What the utterance may take in all is spoken: the rest of its text is not."""
        if not self.frames_left:
            self._reason = "max_audio"
            self._segments.clear()
            self._timers.cancel("idle")
            self._text_over = True

    @property
    def frames_left(self) -> int:
        """How many frames the utterance may still take."""
        limit = int(self._host.deploy.text.max_audio_s * FRAME_RATE_HZ)
        return max(limit - self._text.end_sample // SAMPLES_PER_FRAME, 0)

    def audio(self, generation: Generation, samples: npt.NDArray[np.float32]) -> None:
        """A chunk of a segment: [S] float32, the receiver's own."""
        generation.received += len(samples)
        self._generated += len(samples)
        if self._muted:
            return
        self.outlet.arrive(generation, len(samples))
        self._watch_reader()
        generation.audio.append(samples)
        self._settle()

    def codec_done(self, generation: Generation) -> None:
        """All audio of a segment came."""
        generation.codec_over = True
        self._settle()

    def _settle(self) -> None:
        """Sends what is next in order: audio of the first part, the parts after it once that is over, the end."""
        if self._muted:
            return
        while True:
            self._answer_flushes()
            if not self._parts:
                break
            part = self._parts[0]
            while part.audio:
                self.outlet.emit_audio(part, part.audio.popleft())
            if not part.over:
                return
            self._parts.popleft()
        if self._text_over and not self._segments:
            self._complete = True
            self.outlet.on_event()

    def _answer_flushes(self) -> None:
        done = self._cut - len(self._segments) - len(self._parts)
        for cut in self._flushes.due(done):
            self.outlet.emit(Flushed(cut, self.outlet.emitted))

    # ---- ends

    def _finish(self) -> None:
        if not self.running:
            self.fail(InvalidArgumentError("text", "there is nothing to speak in it: no letter that is read, no digit"))
            return
        self._over(Finished(self._reason, self.statistics))

    @property
    def statistics(self) -> Statistics:
        """What it took, as far as it has come."""
        return self.outlet.watch.statistics(self.outlet.emitted, self._spoken, self._text.length)

    def fail(self, error: TalkwireError) -> None:
        """Ends it with an error; a no-op for one that is over. What it holds is let go behind the answer."""
        if self._end is None and self._abort is None:
            self._mute()
            self._over(Failed(error))

    def _over(self, event: Event) -> None:
        """The end event; nothing follows it."""
        self._end = event
        self._muted = True
        self._timers.cancel_all()
        self.outlet.emit(event)
        self._host.left(self)
        self.on_over(event)

    def _mute(self) -> list[Generation]:
        """Drops all that has not been taken, and tells the stages. The generations that they hold."""
        if self._muted:
            return []
        self._muted = True
        self._timers.cancel_all()
        self._segments.clear()
        self.outlet.drop()
        return [part for part in self._parts if self._host.abort(part)]

    async def _finish_abort(self, played: int, generations: list[Generation]) -> Aborted:
        try:
            async with asyncio.timeout(RELEASE_TIMEOUT_S):
                for generation in generations:
                    await generation.released.wait()
        except TimeoutError:
            log.warning("a stage has not let go of an aborted utterance", extra={"server_id": self.server_id})
        aborted = Aborted(*self._text.split(played), self._generated)
        if self._end is None:
            self._over(aborted)
        return aborted

    # ---- timers

    def _restart_idle_timer(self) -> None:
        if (pause_s := self._host.deploy.text.idle_flush_s) and not self._muted:
            self._timers.set("idle", pause_s, lambda: self._accept(self._segmenter.idle))

    def _time_out(self, field: str, limit_s: float) -> None:
        self.fail(TimedOutError(f"{field}: {limit_s:g} s have passed"))
