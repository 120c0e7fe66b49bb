"""A running total over an eventfd."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from talkwire_pipeline.connector import layout
from talkwire_pipeline.connector.tally import Tally

MODULUS = 1000


@pytest.fixture
def tally() -> Iterator[Tally]:
    fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
    yield Tally(fd, MODULUS)
    os.close(fd)


def test_nothing_was_added(tally: Tally) -> None:
    assert tally.follow(7) == (7, False)


def test_differences_add_up_and_are_read_once(tally: Tally) -> None:
    tally.add(2)
    tally.add(3)
    assert tally.follow(7) == (12, False)
    assert tally.follow(12) == (12, False)


def test_totals_wrap(tally: Tally) -> None:
    tally.add(5)
    assert tally.follow(MODULUS - 2) == (3, False)


def test_an_announced_total_replaces_what_was_known(tally: Tally) -> None:
    tally.announce(40)
    tally.add(2)
    assert tally.follow(7) == (42, False)


def test_an_announcement_swallows_what_it_contains(tally: Tally) -> None:
    tally.add(3)
    tally.announce(40)
    tally.announce(41)
    assert tally.follow(7) == (41, False)


@pytest.mark.parametrize("modulus", [layout.COUNTS, layout.POSITIONS])
def test_the_largest_total_fits_beside_the_flags(tally: Tally, modulus: int) -> None:
    large = Tally(tally.fd, modulus)
    large.announce(modulus - 1, hello=True)
    large.nudge()
    assert large.follow(7) == (modulus - 1, True)


def test_hello_asks(tally: Tally) -> None:
    tally.announce(0, hello=True)
    assert tally.follow(7) == (0, True)
    assert tally.follow(0) == (0, False)


def test_nudges_wake_and_change_nothing(tally: Tally) -> None:
    for _ in range(1000):
        tally.nudge()
    tally.add(1)
    assert tally.follow(7) == (8, False)
    tally.announce(40, hello=True)
    tally.nudge()
    assert tally.follow(7) == (40, True)
