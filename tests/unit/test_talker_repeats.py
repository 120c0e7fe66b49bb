"""Circles in code rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from talkwire_pipeline.messages import Codes
from talkwire_pipeline.talker.repeats import MAX_PERIOD, REPEATED_ROWS, is_repeating


def speech(rows: int, seed: int = 0) -> Codes:
    return np.random.default_rng(seed).integers(0, 1024, (rows, 8), dtype=np.int16)


def circle(period: int, rows: int) -> Codes:
    return np.tile(speech(period, 1), (rows // period + 1, 1))[:rows]


@pytest.mark.parametrize("rows", [0, 1, REPEATED_ROWS, 1000])
def test_speech_is_no_circle(rows: int) -> None:
    assert not is_repeating(speech(rows))


@given(st.integers(1, MAX_PERIOD), st.integers(0, 200))
@settings(max_examples=30)
def test_a_circle_is_seen_once_it_has_gone_round_for_long_enough(period: int, before: int) -> None:
    rows = np.concatenate([speech(before), circle(period, REPEATED_ROWS + period)])
    assert is_repeating(rows)
    assert not is_repeating(rows[:-1])


def test_a_pause_is_no_circle() -> None:
    silence = circle(1, REPEATED_ROWS - 10)
    assert not is_repeating(np.concatenate([speech(100), silence]))
    assert not is_repeating(np.concatenate([silence, speech(10, 2), silence]))


def test_one_code_that_differs_breaks_it() -> None:
    rows = circle(7, REPEATED_ROWS + 7)
    assert is_repeating(rows)
    rows[-3, 5] ^= 1
    assert not is_repeating(rows)
