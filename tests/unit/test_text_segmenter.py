"""The segmenter: joined segments are the text, however it came in."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from talkwire_pipeline.errors import InvalidArgumentError
from talkwire_pipeline.text.controls import ControlTokens
from talkwire_pipeline.text.segmenter import Segment, Segmenter

CONTROLS = ControlTokens(
    ["<|emotion:joy|>", "<|emotion:fear|>", "<|prosody:pause|>", "<|prosody:speed_slow|>", "<|sfx:sigh|>", "<|tts|>"]
)
# What must stay whole, and words between them.
WHOLE = (
    "3.14",
    "1 000 000",
    "2026-12-01",
    "Dec 1, 2026",
    "Dr. Smith",
    "e.g. this",
    "https://example.com/a?b=1.5",
    "bob.smith@example.com",
    "👩‍👩‍👧‍👦",
    "🇩🇪",
    "👍🏽",
    "e\u0301\u0323",
    "<|emotion:joy|>",
    "<|prosody:pause|>",
    "7:45 pm",
    "$4.50",
)
WORDS = (
    "hello",
    "world",
    "the",
    "He left.",
    "Wow!",
    "well,",
    "然后。",
    "quick brown fox",
    "\n\n",
    "(yes)",
    "—",
    "x<",
    "<|",
    "5.",
)
texts = st.lists(
    st.tuples(st.sampled_from(WHOLE + WORDS), st.sampled_from((" ", " ", " ", "", "\n"))), max_size=40
).map(lambda pieces: "".join(word + gap for word, gap in pieces))
any_text = texts | st.text(max_size=200)


def cut(text: str, splits: list[int] | None = None, **options: int) -> list[Segment]:
    segmenter = Segmenter("en", **{"max_segment_chars": 60, "first_segment_chars": 20, **options})
    places = [0, *sorted(place % (len(text) + 1) for place in splits or ()), len(text)]
    segments = [segment for start, end in pairwise(places) for segment in segmenter.feed(text[start:end])]
    return segments + segmenter.end()


def words_of(segments: list[Segment]) -> list[str]:
    return [segment.text for segment in segments]


@settings(max_examples=150)
@given(any_text, st.lists(st.integers(0, 10_000), max_size=30), st.sampled_from((1, 6)))
def test_splits_change_nothing_and_nothing_is_lost(text: str, splits: list[int], digit_chars: int) -> None:
    whole = cut(text, digit_chars=digit_chars)
    assert cut(text, splits, digit_chars=digit_chars) == whole
    assert "".join(words_of(whole)) == text
    assert [segment.start for segment in whole[1:]] == [segment.end for segment in whole[:-1]]
    assert all(segment.text == text[segment.start : segment.end] for segment in whole)


@given(any_text)
def test_one_character_at_a_time_is_the_same_as_all_at_once(text: str) -> None:
    assert cut(text, list(range(len(text)))) == cut(text)


@given(any_text, st.lists(st.integers(0, 10_000), max_size=10))
def test_flush_and_idle_lose_nothing(text: str, splits: list[int]) -> None:
    segmenter = Segmenter("en", 60, 20)
    places = [0, *sorted(place % (len(text) + 1) for place in splits), len(text)]
    segments: list[Segment] = []
    for number, (start, end) in enumerate(pairwise(places)):
        segments += segmenter.feed(text[start:end])
        segments += segmenter.flush() if number % 3 == 0 else segmenter.idle()
    assert "".join(words_of(segments + segmenter.end())) == text


@settings(max_examples=80)
@given(texts)
def test_what_belongs_together_stays_together(text: str) -> None:
    borders = {segment.end for segment in cut(text, max_segment_chars=200)}
    for piece in WHOLE:
        for found in re.finditer(rf"(?<!\S){re.escape(piece)}(?!\w)", text):
            inside = set(range(found.start() + 1, found.end()))
            assert not borders & inside, f"cut inside {piece!r}"


@settings(max_examples=80)
@given(any_text, st.integers(2, 30))
def test_a_segment_is_never_longer_than_it_may_be(text: str, max_chars: int) -> None:
    clusters = {0} | {found.end() for found in regex.finditer(r"\X", text)}
    for segment in cut(text, max_segment_chars=max_chars):
        if len(segment.text) > max_chars:
            assert regex.fullmatch(r"<\|[^<>|\n]+\|>", segment.text)
        elif segment.end not in clusters:
            assert len(segment.text) == max_chars, "only a cluster that is longer than a segment may be cut"


@pytest.mark.parametrize(
    ("text", "segments"),
    [
        ("", []),
        (" ", [" "]),
        ("Hi.", ["Hi."]),
        (
            "Hello there, my friend. It costs $3.50 on Dec. 1, 2026, and Mr. Smith said so. He left.",
            ["Hello there, my friend. ", "It costs $3.50 on Dec. 1, 2026, and Mr. Smith said so. ", "He left."],
        ),
        (
            "Well, this sentence has a clause, and then it goes on.",
            ["Well, this sentence has a clause, ", "and then it goes on."],
        ),
        (
            "The quick brown fox jumps over the lazy dog and runs away",
            ["The quick brown fox jumps over the lazy ", "dog and runs away"],
        ),
        ("今天的天气真的非常好，我们去公园里面玩一玩吧。", ["今天的天气真的非常好，我们去公园里面玩一玩吧。"]),
        ("你好，今天的天气真的非常好。我们去公园吧。", ["你好，今天的天气真的非常好。我们去公园吧。"]),
        ("😀 😀 !!! Hello there, you. 👍", ["😀 😀 !!! Hello there, ", "you. 👍"]),
        (
            "Short one. 'Yes,' he said. Then \"No!\" she cried.",
            ["Short one. 'Yes,' ", 'he said. Then "No!" she cried.'],
        ),
    ],
)
def test_cuts(text: str, segments: list[str]) -> None:
    assert words_of(cut(text, max_segment_chars=300, first_segment_chars=40)) == segments


def test_a_sentence_comes_out_when_the_next_begins() -> None:
    segmenter = Segmenter("en", 300, 40)
    assert segmenter.feed("This is the first sentence.") == []
    assert segmenter.feed(" ") == []
    assert words_of(segmenter.feed("T")) == ["This is the first sentence. "]


def test_a_number_is_not_cut_where_an_increment_ends() -> None:
    segmenter = Segmenter("en", 300, 10)
    assert words_of(segmenter.feed("We met in the year of 2026")) == ["We met in "]
    assert words_of(segmenter.feed("0 and then it rained")) == ["the year of 20260 and "]


def test_later_segments_are_longer() -> None:
    lengths = [len(segment.text) for segment in cut("She came home late. " * 40, first_segment_chars=40)]
    longer = [
        len(text)
        for text in words_of(cut("She came home late. " * 40, None, max_segment_chars=300, first_segment_chars=40))
    ]
    assert longer[:4] == [20, 40, 80, 160]
    assert max(lengths) <= 60


@pytest.mark.parametrize(
    ("text", "spoken", "kept"),
    [
        ("Let me check that.", ["Let me check that."], ""),
        ("Hello there", ["Hello "], "there"),
        ("Hello there ", ["Hello there "], ""),
        ("It was 2026", ["It "], "was 2026"),
        ("I paid 3.", ["I "], "paid 3."),
        ("See you in May ", ["See you in "], "May "),
        ("Go to www.example.", ["Go to "], "www.example."),
        ("Thanks to Dr.", ["Thanks to "], "Dr."),
        ("He cried <|sfx:si", ["He cried "], "<|sfx:si"),
        ("Well done 👍", ["Well done "], "👍"),
        ("你好。", ["你好。"], ""),
        ("...", [], "..."),
    ],
)
def test_idle_cuts_at_the_last_safe_place(text: str, spoken: list[str], kept: str) -> None:
    segmenter = Segmenter("en", 300, 40)
    assert words_of(segmenter.feed(text) + segmenter.idle()) == spoken
    assert segmenter.idle() == []
    assert "".join(words_of(segmenter.end())) == kept


def test_flush_takes_all_and_text_goes_on() -> None:
    segmenter = Segmenter("en", 300, 40)
    assert words_of(segmenter.feed("Hello wor") + segmenter.flush()) == ["Hello wor"]
    assert segmenter.flush() == []
    (rest,) = segmenter.feed("ld.") + segmenter.end()
    assert (rest.text, rest.start, rest.end) == ("ld.", 9, 12)


def test_text_without_any_place_is_cut_hard_and_in_linear_time() -> None:
    assert {len(text) for text in words_of(cut("a" * 200_000, max_segment_chars=300))} == {300, 200}
    assert {len(text) for text in words_of(cut("👩‍👩‍👧‍👦" * 100, max_segment_chars=10))} == {7}
    assert max(map(len, words_of(cut("1" * 500, max_segment_chars=60, digit_chars=6)))) == 10


def test_what_cannot_be_spoken_is_marked() -> None:
    segments = cut("Hello there, my friend. 😀")
    assert [(segment.text, segment.speakable) for segment in segments] == [
        ("Hello there, ", True),
        ("my friend. 😀", True),
    ]
    assert [segment.speakable for segment in cut("?! 😀 <|prosody:pause|>")] == [False]
    assert [segment.speakable for segment in cut("<|sfx:sigh|>")] == [True]


def test_delivery_leads_a_segment_and_is_carried_on() -> None:
    segmenter = Segmenter("en", 60, 20, CONTROLS)
    text = (
        "<|emotion:joy|>Hello there, dear friend. I am <|prosody:pause|> so very glad that you came here today. "
        "<|emotion:fear|><|prosody:speed_slow|>Now I am scared."
    )
    segments = segmenter.feed(text) + segmenter.end()
    assert [(segment.text, segment.delivery) for segment in segments] == [
        ("<|emotion:joy|>Hello there, ", ("<|emotion:joy|>",)),
        ("dear friend. I am <|prosody:pause|> so very glad that you ", ("<|emotion:joy|>",)),
        ("came here today. ", ("<|emotion:joy|>",)),
        ("<|emotion:fear|><|prosody:speed_slow|>Now I am scared.", ("<|emotion:fear|>", "<|prosody:speed_slow|>")),
    ]


def test_an_unknown_control_token_is_refused_with_the_nearest() -> None:
    segmenter = Segmenter("en", 300, 40, CONTROLS)
    segmenter.feed("Hello <|emotion:jo")
    with pytest.raises(InvalidArgumentError, match=r"<\|emotion:joi\|>.*nearest.*<\|emotion:joy\|>") as error:
        segmenter.feed("i|> you")
    assert error.value.field == "text"


@pytest.mark.parametrize("text", ["<|tts|>", "a<|tts|>b", "Hello <|tts|>", "<" + "<|tts|>"])
def test_the_models_own_tokens_are_refused(text: str) -> None:
    segmenter = Segmenter("en", 300, 40, CONTROLS)
    with pytest.raises(InvalidArgumentError, match=r"<\|tts\|> belongs to the model"):
        [*segmenter.feed(text), *segmenter.end()]


def test_signs_like_control_tokens_are_text() -> None:
    segmenter = Segmenter("en", 300, 40, CONTROLS)
    text = "a <| b |> c <|\n|> d < e <||> <|"
    assert "".join(words_of(segmenter.feed(text) + segmenter.end())) == text
