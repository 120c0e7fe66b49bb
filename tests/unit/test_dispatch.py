"""Who gets the next slot."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from talkwire_pipeline.dispatch import Dispatcher, Pace

MANY = 100


@dataclass(eq=False)
class Segment:
    name: str
    log: list[str]
    priority: int = 0
    running: bool = False
    dry: int = 0
    needs_slot: bool = True

    def dry_ns(self) -> int:
        return self.dry

    def start(self) -> bool:
        self.log.append(self.name)
        return self.needs_slot


@dataclass(eq=False)
class Silent(Segment):
    """Needs no slot, and is followed by the next one at once."""

    dispatcher: Dispatcher[Segment] | None = None
    followers: int = 0

    def start(self) -> bool:
        if self.dispatcher is not None and self.followers:
            self.dispatcher.submit(
                Silent(self.name, self.log, dispatcher=self.dispatcher, followers=self.followers - 1)
            )
        self.log.append(self.name)
        return False


def order(slots: int, *segments: Segment) -> None:
    """Submits all while no slot is free, then frees as many as it takes."""
    dispatcher = Dispatcher[Segment](slots, MANY, busy=slots)
    for segment in segments:
        dispatcher.submit(segment)
    while dispatcher.waiting:
        dispatcher.free()


def test_slots_are_given_while_there_are_any() -> None:
    log: list[str] = []
    dispatcher = Dispatcher[Segment](2, MANY)
    for name in "abc":
        dispatcher.submit(Segment(name, log))
    assert log == ["a", "b"]
    dispatcher.free()
    assert log == ["a", "b", "c"]
    assert dispatcher.busy == 2


def test_running_utterances_go_before_new_ones_and_the_driest_first() -> None:
    log: list[str] = []
    order(
        1,
        Segment("new", log),
        Segment("later", log, running=True, dry=200),
        Segment("sooner", log, running=True, dry=100),
    )
    assert log == ["sooner", "later", "new"]


def test_priority_goes_before_everything() -> None:
    log: list[str] = []
    order(1, Segment("batch", log, priority=1, running=True), Segment("interactive", log))
    assert log == ["interactive", "batch"]


def test_a_segment_that_needs_no_slot_leaves_it_to_the_next() -> None:
    log: list[str] = []
    dispatcher = Dispatcher[Segment](1, 1)
    dispatcher.submit(Segment("silent", log, needs_slot=False))
    dispatcher.submit(Segment("spoken", log))
    assert log == ["silent", "spoken"]
    assert dispatcher.busy == 1


def test_a_segment_that_cannot_be_opened_leaves_its_slot() -> None:
    class Broken(Segment):
        def start(self) -> bool:
            raise TypeError("no")

    dispatcher = Dispatcher[Segment](1, 1)
    with pytest.raises(TypeError):
        dispatcher.submit(Broken("broken", []))
    assert (dispatcher.busy, dispatcher.held) == (0, 0)


def test_whoever_gives_way_waits_behind_the_one_it_gave_way_to() -> None:
    log: list[str] = []
    batch, urgent = Segment("batch", log, priority=1), Segment("urgent", log)

    def make_room(wanting: Segment) -> bool:
        if wanting.priority or log[-1] != "batch":
            return False
        dispatcher.give_way(batch)
        return True

    dispatcher = Dispatcher[Segment](1, 1, make_room=make_room)
    dispatcher.submit(batch)
    dispatcher.submit(urgent)
    assert log == ["batch", "urgent"]
    assert (dispatcher.busy, dispatcher.held, list(dispatcher.waiting.values())) == (1, 1, [batch])
    dispatcher.submit(Segment("urgent too", log))
    assert log == ["batch", "urgent"]
    dispatcher.leave()
    dispatcher.free()
    assert log == ["batch", "urgent", "urgent too"]


def test_the_wait_is_that_of_the_slots_that_must_come_free_before() -> None:
    dispatcher = Dispatcher[Segment](2, MANY)
    dispatcher.pace.held(4.0)
    assert dispatcher.wait_s(0) == 0
    for _ in range(2):
        dispatcher.submit(Segment("busy", []))
    assert dispatcher.wait_s(0) == 2.0
    dispatcher.submit(Segment("waiting", []))
    dispatcher.submit(Segment("batch", [], priority=1))
    assert dispatcher.wait_s(0) == 4.0
    assert dispatcher.wait_s(1) == 6.0


def test_a_withdrawn_segment_is_never_opened() -> None:
    log: list[str] = []
    dispatcher = Dispatcher[Segment](1, MANY, busy=1)
    segment = Segment("gone", log)
    dispatcher.submit(segment)
    dispatcher.withdraw(segment)
    dispatcher.free()
    assert log == []
    assert dispatcher.busy == 0


def test_a_segment_that_the_talker_is_done_with_keeps_its_place() -> None:
    log: list[str] = []
    dispatcher = Dispatcher[Segment](1, 2)
    for name in "abc":
        dispatcher.submit(Segment(name, log))
        if dispatcher.busy:
            dispatcher.free()
    assert log == ["a", "b"]
    dispatcher.leave()
    assert log == ["a", "b", "c"]


@given(st.lists(st.sampled_from(["submit", "free", "leave"]), max_size=40), st.integers(1, 4), st.integers(1, 6))
def test_limits_hold_and_nobody_waits_below_them(steps: list[str], slots: int, places: int) -> None:
    log: list[str] = []
    dispatcher = Dispatcher[Segment](slots, places)
    for step in steps:
        if step == "submit":
            dispatcher.submit(Segment("s", log))
        elif step == "free" and dispatcher.busy:
            dispatcher.free()
        elif step == "leave" and dispatcher.held > dispatcher.busy:
            dispatcher.leave()
        assert dispatcher.busy <= slots
        assert dispatcher.held <= places
        assert not dispatcher.waiting or dispatcher.busy == slots or dispatcher.held == places


def test_a_text_of_nothing_but_silent_segments_needs_no_deep_stack() -> None:
    log: list[str] = []
    dispatcher = Dispatcher[Segment](10_000, 10_000)
    dispatcher.submit(Silent("a", log, dispatcher=dispatcher, followers=5_000))
    assert len(log) == 5_001
    assert (dispatcher.busy, dispatcher.held) == (0, 0)
    dispatcher.submit(Segment("b", log))
    assert dispatcher.busy == 1


def test_who_gave_up_before_the_first_audio_counts_as_late_and_never_as_early() -> None:
    pace = Pace()
    pace.spoke(1.0)
    pace.gave_up(0.1)
    assert pace.first_s == 1.0
    pace.gave_up(2.0)
    assert pace.first_s == pytest.approx(1.1)
