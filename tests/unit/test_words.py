"""Words and their estimated places."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from talkwire_pipeline.events import Span
from talkwire_pipeline.text.normalize import normalize_words
from talkwire_pipeline.text.normalize.spans import unchanged
from talkwire_pipeline.text.segmenter import Segment
from talkwire_pipeline.words import word_spans


def spans(text: str, samples: int = 24_000, start: int = 100, normalize: bool = True) -> tuple[Span, ...]:
    body = normalize_words(text) if normalize else unchanged(text)
    return word_spans(Segment(text, start, start + len(text)), body, 960, 960 + samples)


def test_words_follow_each_other_over_the_whole_segment() -> None:
    got = spans("The birch canoe slid.")
    assert [(span.text_start - 100, span.text_end - 100) for span in got] == [(0, 3), (4, 9), (10, 15), (16, 21)]
    assert got[0].start_sample == 960
    assert got[-1].end_sample == 960 + 24_000
    assert all(one.end_sample == two.start_sample for one, two in pairwise(got))
    assert all(span.kind == "word" and not span.exact for span in got)


def test_a_longer_word_takes_longer_and_a_mark_makes_a_pause() -> None:
    short, long = spans("is remarkable")
    assert short.end_sample - short.start_sample < long.end_sample - long.start_sample
    with_mark, without = spans("word, word")
    assert with_mark.end_sample - with_mark.start_sample > without.end_sample - without.start_sample


def test_what_is_spelt_out_takes_the_time_of_its_words() -> None:
    number, word = spans("1984 is")
    assert number.end_sample - number.start_sample > 4 * (word.end_sample - word.start_sample)


def test_what_is_not_spoken_takes_no_time() -> None:
    got = spans("One 🙂 two")
    assert len(got) == 3
    assert got[1].start_sample == got[1].end_sample or got[1].end_sample <= got[2].start_sample
    assert spans("🙂") == ()


@given(st.text(max_size=60), st.integers(0, 100_000), st.booleans())
def test_order_and_borders_hold_for_any_text(text: str, samples: int, normalize: bool) -> None:
    got = spans(text, samples, 0, normalize)
    for one, two in pairwise(got):
        assert one.text_end <= two.text_start
        assert one.end_sample == two.start_sample
    for span in got:
        assert 960 <= span.start_sample <= span.end_sample <= 960 + samples
        assert not any(character.isspace() for character in text[span.text_start : span.text_end])
    if got:
        assert (got[0].start_sample, got[-1].end_sample) == (960, 960 + samples)
