import pytest
from hypothesis import given
from hypothesis import strategies as st

from talkwire.playback import Arrival, continuity, longest_underrun_s

LENGTHS = st.floats(0.01, 2)


def test_no_audio_is_no_underrun() -> None:
    assert longest_underrun_s([]) == 0.0


def test_the_wait_for_the_first_piece_is_no_underrun() -> None:
    assert longest_underrun_s([Arrival(5.0, 1.0)]) == 0.0


@pytest.mark.parametrize(
    ("arrivals", "expected"),
    [
        ([(0.0, 1.0), (0.9, 1.0), (1.9, 1.0)], 0.0),
        ([(0.0, 0.1), (0.25, 1.0)], 0.15),
        # the player falls back after a gap: the next piece may come later by as much
        ([(0.0, 0.1), (0.3, 0.5), (0.8, 0.1), (1.0, 0.1)], 0.2),
        ([(0.0, 2.0), (0.1, 2.0), (4.05, 1.0), (6.0, 1.0)], 0.95),
    ],
)
def test_the_longest_silence_counts(arrivals: list[tuple[float, float]], expected: float) -> None:
    assert longest_underrun_s([Arrival(*arrival) for arrival in arrivals]) == pytest.approx(expected)


@given(st.lists(LENGTHS, min_size=1, max_size=20), st.floats(0, 1))
def test_audio_that_comes_as_fast_as_it_plays_never_runs_dry(lengths: list[float], lead: float) -> None:
    at, arrivals = 0.0, []
    for length in lengths:
        arrivals.append(Arrival(at, length))
        at += length * lead
    assert longest_underrun_s(arrivals) == pytest.approx(0.0, abs=1e-9)


@given(st.lists(LENGTHS, min_size=2, max_size=20), st.data())
def test_one_late_piece_is_one_silence(lengths: list[float], data: st.DataObject) -> None:
    late, gap = data.draw(st.integers(1, len(lengths) - 1)), data.draw(st.floats(0.01, 3))
    at, arrivals = 0.0, []
    for number, length in enumerate(lengths):
        at += gap if number == late else 0.0
        arrivals.append(Arrival(at, length))
        at += length
    assert longest_underrun_s(arrivals) == pytest.approx(gap)


def test_continuity_is_the_share_within_the_limit() -> None:
    assert continuity([0.0, 0.1, 0.1001, 5.0]) == 0.5
    assert continuity([]) == 0.0
