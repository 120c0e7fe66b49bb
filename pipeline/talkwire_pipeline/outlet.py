"""The caller's end of an utterance: events that wait to be taken, and what was taken of the audio."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING

from talkwire_pipeline.events import END_EVENTS, Audio, Event, Started
from talkwire_pipeline.generation import Generation
from talkwire_pipeline.player import Player
from talkwire_pipeline.stopwatch import Stopwatch

if TYPE_CHECKING:
    from talkwire_pipeline.utterance import Utterance


def _nobody() -> None:
    """Nobody listens."""


class Outlet:
    """Events in order, each with the generation whose audio it is.

    Attributes:
        player: a model of the caller's player.
        watch: when the first and the last audio passed.
        on_event: called when there is something to take.
    """

    def __init__(self) -> None:
        self.player = Player()
        self.watch = Stopwatch()
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

    def emit(self, event: Event, generation: Generation | None = None) -> None:
        """Lets an event wait; `generation` is that of an `Audio`."""
        self._events.append((event, generation))
        self.on_event()

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


async def listen(utterance: Utterance) -> AsyncIterator[Event]:
    """All events of an utterance up to its end event, with their credit; leaving early aborts it."""
    ready = asyncio.Event()
    utterance.on_event = ready.set
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
