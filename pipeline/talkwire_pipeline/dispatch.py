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
_SHARE = 0.1
"""Of a new value in a mean."""


@dataclass
class Pace:
    """What segments took of late.

    Attributes:
        hold_s: from getting a slot to giving it back, mean.
        first_s: from getting a slot to the first audio, mean.
    """

    hold_s: float = 0.0
    first_s: float = 0.0

    def held(self, took_s: float) -> None:
        """A slot was held for so long."""
        self.hold_s += (took_s - self.hold_s) * (_SHARE if self.hold_s else 1)

    def spoke(self, took_s: float) -> None:
        """A segment's first audio took so long."""
        self.first_s += (took_s - self.first_s) * (_SHARE if self.first_s else 1)

    def gave_up(self, after_s: float) -> None:
        """A segment was dropped after so long that had no audio yet: it would have taken longer."""
        if after_s > self.first_s:
            self.spoke(after_s)


def _no_room(_: object) -> bool:
    """Nobody gives way."""
    return False


@dataclass
class Dispatcher(Generic[W]):
    """Gives slots to waiting segments in the order in which their players run dry.

    Attributes:
        slots: segments that may be with the talker at the same time.
        places: segments that the codec can hold: one that the talker is done with stays there until its last audio.
        busy: segments that are with the talker.
        held: segments that are with either stage.
        waiting: segments that wait, in order of arrival.
        make_room: asked where none is free for the first that waits; True: one gave way, and waits itself now.
        pace: what segments took of late.
    """

    slots: int
    places: int
    busy: int = 0
    held: int = 0
    waiting: dict[int, W] = field(default_factory=dict)
    make_room: Callable[[W], bool] = _no_room
    pace: Pace = field(default_factory=Pace)
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
            while self.waiting:
                first = min(self.waiting, key=self._order)
                if not self._has_room and not self.make_room(self.waiting[first]):
                    return
                self._start(first)
        finally:
            self._pumping = False

    @property
    def _has_room(self) -> bool:
        return self.busy < self.slots and self.held < self.places

    def give_way(self, segment: W) -> None:
        """The segment leaves both stages before its time, and waits again."""
        self.busy -= 1
        self.held -= 1
        self.waiting[self._arrivals()] = segment

    def wait_s(self, priority: int) -> float:
        """How long a new segment will wait for a slot, by the pace of late: slots come free one after the other."""
        ahead = sum(segment.priority <= priority for segment in self.waiting.values())
        missing = ahead + 1 - (self.slots - self.busy)
        return max(missing, 0) * self.pace.hold_s / self.slots

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
