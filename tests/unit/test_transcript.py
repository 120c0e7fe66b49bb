"""Which text was heard after so many samples."""

from hypothesis import given
from hypothesis import strategies as st

from talkwire_pipeline.events import Span
from talkwire_pipeline.transcript import Transcript


def spoken(*segments: tuple[str, int]) -> Transcript:
    transcript = Transcript(limit=1000)
    for text, samples in segments:
        start = transcript.length
        transcript.append(text)
        transcript.spoken(start, transcript.length, samples)
    return transcript


def test_whole_segments_are_heard_at_their_end() -> None:
    transcript = spoken(("One two. ", 9600), ("Three four.", 9600))
    assert transcript.split(9600) == ("One two. ", "Three four.")
    assert transcript.split(19_200) == ("One two. Three four.", "")
    assert transcript.split(0) == ("", "One two. Three four.")


def test_inside_a_segment_the_words_that_were_played_are_heard() -> None:
    transcript = spoken(("One two three four. ", 24_000))
    ends = ((0, 3, 0, 5000), (4, 7, 5000, 11_000), (8, 13, 11_000, 17_000), (14, 19, 17_000, 24_000))
    transcript.words += [Span(*word, "word", exact=False) for word in ends]
    assert transcript.split(10_999) == ("One ", "two three four. ")
    assert transcript.split(11_000) == ("One two ", "three four. ")
    assert transcript.split(24_000) == ("One two three four. ", "")


def test_blanks_alone_are_not_heard() -> None:
    transcript = spoken((" One.", 960))
    assert transcript.split(0) == ("", " One.")


def test_text_without_audio_is_heard_with_what_is_before_it() -> None:
    transcript = spoken(("One. ", 960), ("... ", 0), ("Two.", 960))
    assert transcript.split(960) == ("One. ... ", "Two.")


def test_text_that_no_segment_has_is_unheard() -> None:
    transcript = spoken(("One. ", 960))
    transcript.append("Two")
    assert transcript.split(10**9) == ("One. ", "Two")


@given(
    st.lists(st.tuples(st.text(max_size=20), st.integers(0, 5000)), max_size=6),
    st.lists(st.integers(0, 30_000), min_size=2, max_size=2).map(sorted),
)
def test_both_parts_are_the_text_and_hearing_more_never_takes_back(
    segments: list[tuple[str, int]], played: list[int]
) -> None:
    transcript = spoken(*segments)
    (sooner, rest), (later, _) = (transcript.split(samples) for samples in played)
    assert sooner + rest == transcript.text
    assert later.startswith(sooner)
