from statistics import quantiles

import pytest
from hypothesis import given
from hypothesis import strategies as st

from talkwire.audio import Speech
from talkwire.bench import percentile, summarise
from talkwire.listen import Heard
from talkwire.v1 import speech_pb2 as pb


def heard(ttfa_s: float, elapsed_s: float, underrun_s: float = 0.0) -> Heard:
    """Two seconds of speech."""
    speech = Speech(bytes(2 * 2 * 1000), 1000, (), pb.Statistics(), capped=False)
    return Heard(speech, ttfa_s, first_payload_s=0.25, elapsed_s=elapsed_s, underrun_s=underrun_s)


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30))
def test_percentile_agrees_with_statistics(values: list[float]) -> None:
    expected = quantiles(values, n=20, method="inclusive")
    assert [percentile(values, share / 20) for share in range(1, 20)] == pytest.approx(expected, abs=1e-6)
    assert (percentile(values, 0), percentile(values, 1)) == (min(values), max(values))


def test_percentile_of_few() -> None:
    assert percentile([], 0.5) == 0.0
    assert percentile([7.0], 0.95) == 7.0


def test_the_figures_of_a_load() -> None:
    figures = summarise(2, [heard(0.1, 1.0), heard(0.3, 0.5, underrun_s=0.2)], failed=1, wall_s=4.0)
    assert (figures.streams, figures.utterances, figures.failed) == (2, 2, 1)
    assert figures.ttfa_p50_s == pytest.approx(0.2)
    assert figures.ttfa_p95_s == pytest.approx(0.29)
    assert figures.first_payload_s == 0.25
    assert figures.real_time_factor == pytest.approx((0.5 + 0.25) / 2)
    assert figures.audio_s_per_s == pytest.approx(1.0)
    assert figures.c100 == 0.5


def test_a_load_of_which_nothing_came() -> None:
    figures = summarise(4, [], failed=3, wall_s=1.0)
    assert (figures.utterances, figures.failed, figures.ttfa_p50_s, figures.c100) == (0, 3, 0.0, 0.0)
