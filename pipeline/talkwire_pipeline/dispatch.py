"""The one queue before the talker: which waiting segment gets the next free slot. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Generic, Protocol, TypeVar


class Waiting(Protocol):
    """A segment that waits for a slot."""

    @property
    def priority(self) -> int:
        """Smaller goes first."""

    @property
    def running(self) -> bool:
        """Whether its utterance is playing: those go before new ones."""

    def dry_ns(self) -> int:
        """When the player runs dry; 0: nothing is playing."""

    def start(self) -> bool:
        """Opens it at the talker. False: it needed no slot after all."""


W = TypeVar("W", bound=Waiting)


@dataclass
class Dispatcher(Generic[W]):
    """Gives slots to waiting segments in the order in which their players run dry.

    Attributes:
        slots: segments that may be with the talker at the same time.
        places: segments that the codec can hold: one that the talker is done with stays there until its last audio.
        busy: segments that are with the talker.
        held: segments that are with either stage.
        waiting: segments that wait, in order of arrival.
    """

    slots: int
    places: int
    busy: int = 0
    held: int = 0
    waiting: dict[int, W] = field(default_factory=dict)
    _arrivals: Callable[[], int] = field(default_factory=lambda: count().__next__)
    _pumping: bool = False

    def submit(self, segment: W) -> None:
        """Lets the segment wait, and opens what can be opened."""
        self.waiting[self._arrivals()] = segment
        self.pump()

    def withdraw(self, segment: W) -> None:
        """The segment waits no longer; a no-op if it did not."""
        for arrival, other in list(self.waiting.items()):
            if other is segment:
                del self.waiting[arrival]

    def free(self) -> None:
        """A slot came free."""
        self.busy -= 1
        self.pump()

    def leave(self) -> None:
        """A place came free: no stage holds the segment any more."""
        self.held -= 1
        self.pump()

    def pump(self) -> None:
        """Opens waiting segments while slots and places are free.

        A segment that needs no slot may submit the next one from its `start`: that one is opened here as well, and not
        deeper down, so that a text of nothing but such segments needs no deeper stack.
        """
        if self._pumping:
            return
        self._pumping = True
        try:
            while self.waiting and self.busy < self.slots and self.held < self.places:
                self._start(min(self.waiting, key=self._order))
        finally:
            self._pumping = False

    def _start(self, arrival: int) -> None:
        started = False
        self.busy += 1
        self.held += 1
        try:
            started = self.waiting.pop(arrival).start()
        finally:
            self.busy -= not started
            self.held -= not started

    def _order(self, arrival: int) -> tuple[int, bool, int, int]:
        segment = self.waiting[arrival]
        return segment.priority, not segment.running, segment.dry_ns(), arrival
