"""The caller's end of an utterance: events that wait to be taken, and what was taken of the audio."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from talkwire_pipeline.errors import ResourceExhaustedError, TimedOutError
from talkwire_pipeline.events import END_EVENTS, Audio, Event, Started
from talkwire_pipeline.generation import Generation
from talkwire_pipeline.player import Player
from talkwire_pipeline.stopwatch import Stopwatch

if TYPE_CHECKING:
    from talkwire_pipeline.utterance import Utterance


FLUSH_LIMIT = 1000
"""Flushes of one utterance that may wait for their answers: nothing else holds back a caller who takes none."""


def _nobody() -> None:
    """Nobody listens."""


class Outlet:
    """Events in order, each with the generation whose audio it is.

    Attributes:
        player: a model of the caller's player.
        watch: when the first and the last audio passed.
        emitted: samples that were let wait.
        on_event: called when there is something to take.
    """

    def __init__(self) -> None:
        self.player = Player()
        self.watch = Stopwatch()
        self.emitted = 0
        self.on_event: Callable[[], None] = _nobody
        self._events: deque[tuple[Event, Generation | None]] = deque()
        self._unpaid: deque[tuple[Generation, int]] = deque()

    def __len__(self) -> int:
        """Events that wait."""
        return len(self._events)

    @property
    def owed(self) -> bool:
        """Whether the caller has audio to take, or took some that it is not done with."""
        return bool(self._unpaid) or self.player.outstanding > 0

    def played(self, samples: int | None) -> int:
        """What a caller who says so has played: no more than it took; None: all of that."""
        taken = self.player.taken
        return taken if samples is None else min(samples, taken)

    def emit(self, event: Event, generation: Generation | None = None) -> None:
        """Lets an event wait; `generation` is that of an `Audio`."""
        self._events.append((event, generation))
        self.on_event()

    def emit_audio(self, generation: Generation, samples: npt.NDArray[np.float32]) -> None:
        """Lets a segment's next chunk wait: [S] float32."""
        self.emit(Audio(self.emitted, samples), generation)
        self.emitted += len(samples)

    def arrive(self, generation: Generation, samples: int) -> None:
        """So much of a segment's audio came from the codec."""
        late_ns = self.player.late_ns(time.monotonic_ns(), generation.queued_ns)
        self.player.received += samples
        self.watch.generate(late_ns / 1e9)

    def take(self) -> Event | None:
        """The next event; None: there is none."""
        if not self._events:
            return None
        event, generation = self._events.popleft()
        if isinstance(event, Audio) and generation is not None:
            self.watch.speak(len(event.samples))
            self.player.take(len(event.samples), time.monotonic_ns())
            self._unpaid.append((generation, len(event.samples)))
        return event

    def credit(self, samples: int) -> Iterator[tuple[Generation, int]]:
        """The caller is done with so many samples of what it took: whose they were."""
        while samples > 0 and self._unpaid:
            generation, owed = self._unpaid.popleft()
            paid = min(owed, samples)
            samples -= paid
            if paid < owed:
                self._unpaid.appendleft((generation, owed - paid))
            yield generation, paid

    def drop(self) -> None:
        """Forgets what waits, but that the utterance has started."""
        self._events = deque(item for item in self._events if isinstance(item[0], Started))


class Flushes:
    """Flushes of one utterance, from the caller's asking to its taking of the answer."""

    def __init__(self) -> None:
        self._waiting: deque[int] = deque()  # each by the segments that were cut before it
        self._open = 0

    def ask(self) -> None:
        """One more. Raises `ResourceExhaustedError` where `FLUSH_LIMIT` are open."""
        if self._open >= FLUSH_LIMIT:
            text = f"flush: {FLUSH_LIMIT} of this utterance wait to be answered: take the answers first"
            raise ResourceExhaustedError(text, reason="FLUSHES")
        self._open += 1

    def wait(self, segments: int) -> None:
        """It is due when so many segments are over."""
        self._waiting.append(segments)

    def due(self, over: int) -> Iterator[int]:
        """Those that are due with so many segments over, by their own number of segments."""
        while self._waiting and self._waiting[0] <= over:
            yield self._waiting.popleft()

    def taken(self) -> None:
        """The caller took an answer."""
        self._open -= 1


def slow_reader(limit_s: float) -> ResourceExhaustedError:
    """Why an utterance fails whose audio nobody takes."""
    text = f"for {limit_s:g} s nothing of the audio that waits was taken: read faster, or abort"
    return ResourceExhaustedError(text, reason="SLOW_READER")


def too_late(limit_s: float | None) -> TimedOutError:
    """Why an utterance is not begun whose first audio can no longer come in time: others have use of its slot."""
    return TimedOutError(f"first_audio_timeout_s: the first audio can no longer come within {limit_s or 0:g} s")


async def listen(utterance: Utterance) -> AsyncIterator[Event]:
    """All events of an utterance up to its end event, with their credit; leaving early aborts it."""
    ready = asyncio.Event()
    utterance.outlet.on_event = ready.set
    ended = False
    try:
        while not ended:
            ready.clear()
            while (event := utterance.take()) is not None:
                ended = isinstance(event, END_EVENTS)
                yield event
                if isinstance(event, Audio):
                    utterance.credit(len(event.samples))
            if not ended:
                await ready.wait()
    finally:
        if not ended:
            utterance.abort()
