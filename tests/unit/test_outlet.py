"""What waits for the caller, and what it owes."""

from __future__ import annotations

import numpy as np

from talkwire_pipeline.events import Audio, Flushed, Started
from talkwire_pipeline.generation import Generation
from talkwire_pipeline.geometry import PRESETS
from talkwire_pipeline.outlet import Outlet
from talkwire_pipeline.text.segmenter import Segment

STARTED = Started("id", 1, PRESETS["exact"], "embedded")


def generation() -> Generation:
    return Generation(None, Segment("Hi.", 0, 3))  # type: ignore[arg-type]


def spoken(outlet: Outlet, samples: int, whose: Generation) -> None:
    outlet.player.received += samples
    outlet.emit(Audio(0, np.zeros(samples, np.float32)), whose)


def test_events_come_in_order_and_are_announced() -> None:
    outlet, announced = Outlet(), []
    outlet.on_event = lambda: announced.append(len(outlet))
    outlet.emit(STARTED)
    outlet.emit(Flushed(0, 0))
    assert announced == [1, 2]
    assert [outlet.take(), outlet.take(), outlet.take()] == [STARTED, Flushed(0, 0), None]


def test_audio_is_owed_until_the_caller_is_done_with_it() -> None:
    outlet, whose = Outlet(), generation()
    assert not outlet.owed
    spoken(outlet, 100, whose)
    assert outlet.owed
    outlet.take()
    assert outlet.player.outstanding == 0
    assert outlet.owed
    assert list(outlet.credit(60)) == [(whose, 60)]
    assert outlet.owed
    assert list(outlet.credit(1000)) == [(whose, 40)]
    assert not outlet.owed


def test_credit_goes_to_the_generations_in_order() -> None:
    outlet, one, two = Outlet(), generation(), generation()
    for whose in (one, two):
        spoken(outlet, 100, whose)
        outlet.take()
    assert list(outlet.credit(150)) == [(one, 100), (two, 50)]


def test_dropping_keeps_the_start_alone() -> None:
    outlet = Outlet()
    outlet.emit(STARTED)
    spoken(outlet, 10, generation())
    outlet.drop()
    assert [outlet.take(), outlet.take()] == [STARTED, None]
