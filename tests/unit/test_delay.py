from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from talkwire_pipeline.delay import BOC, EOC, delay, undelay

frames_of_any_length = st.integers(0, 30).flatmap(
    lambda count: arrays(np.int16, (count, 8), elements=st.integers(0, 1023))
)


@settings(max_examples=50)
@given(frames_of_any_length)
def test_undelay_takes_delay_back(frames: np.ndarray) -> None:
    rows = delay(frames)
    assert rows.shape == (len(frames) + 7, 8)
    assert np.array_equal(undelay(rows), frames)


def test_rows_of_two_frames() -> None:
    rows = delay(np.array([range(10, 18), range(20, 28)], dtype=np.int16))
    assert rows[0].tolist() == [10, *[BOC] * 7]
    assert rows[1].tolist() == [20, 11, *[BOC] * 6]
    assert rows[2].tolist() == [EOC, 21, 12, *[BOC] * 5]
    assert rows[8].tolist() == [*[EOC] * 7, 27]


@pytest.mark.parametrize("count", [0, 1, 7])
def test_fewer_than_eight_rows_give_no_frame(count: int) -> None:
    assert undelay(np.zeros((count, 8), dtype=np.int16)).shape == (0, 8)


def test_markers_and_strays_become_zero_and_the_last_real_code_stays() -> None:
    rows = np.full((8, 8), 5, dtype=np.int16)
    rows[0, 0], rows[1, 1], rows[2, 2], rows[3, 3] = BOC, EOC, -1, 1023
    assert undelay(rows).tolist() == [[0, 0, 0, 1023, 5, 5, 5, 5]]
