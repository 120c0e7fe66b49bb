"""The words normaliser: a table of what is read how, and what holds for any text."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from talkwire_pipeline.text.controls import CONTROL
from talkwire_pipeline.text.normalize import normalize_words

DEMO = Path(__file__).parents[2] / "pipeline" / "talkwire_demo"
TOKENIZER = Tokenizer.from_file(str(DEMO / "tokenizer.json"))
TABLE = {
    "numbers": [
        ("0 7 21 100", "zero seven twenty one one hundred"),
        ("1,234,567", "one million two hundred and thirty four thousand five hundred and sixty seven"),
        ("3.14 and .5", "three point one four and zero point five"),
        ("-5 and \u22123.5", "minus five and minus three point five"),
        ("1st 2nd 3rd 21st", "first second third twenty first"),
        ("007", "zero zero seven"),
        ("12345678901234567890", "one two three four five six seven eight nine zero " * 2),
        ("1500 people", "fifteen hundred people"),
        ("100,000 people", "one hundred thousand people"),
        ("3/4, 1/2, 1 1/2, 2½, 9/11", "three quarters, one half, one and a half, two and a half, nine over eleven"),
        ("10-20 and 10 – 20", "ten to twenty and ten to twenty"),
        ("v2.0.1", "v two point zero point one"),
        ("COVID-19, A4, 3D, 4x4", "COVID-nineteen, A four, three D, four times four"),
        ("٣ and ５", "three and five"),
        ("It is 3. Really.", "It is three. Really."),
    ],
    "years": [
        ("1984, 2005, 2026", "nineteen eighty four, two thousand and five, twenty twenty six"),
        ("the 1990s, the '80s", "the nineteen nineties, the eighties"),
        ("1990-1995", "nineteen ninety to nineteen ninety five"),
    ],
    "money": [
        ("$4.50", "four dollars and fifty cents"),
        ("$1, $0.99, $1.01", "one dollar, ninety nine cents, one dollar and one cent"),
        ("€5, 5 €, £3.20", "five euros, five euros, three pounds and twenty pence"),
        ("$1.5 million, $5k", "one point five million dollars, five thousand dollars"),
        ("$5-$10", "five dollars to ten dollars"),
        ("-$3", "minus three dollars"),
    ],
    "times": [
        ("7:45", "seven forty five"),
        ("7:45 pm", "seven forty five p m"),
        ("7:05 a.m. today", "seven oh five a m today"),
        ("19:30", "nineteen thirty"),
        ("7:00, 15:00, 7pm", "seven o'clock, fifteen hundred, seven p m"),
    ],
    "dates": [
        ("2026-12-01", "December first, twenty twenty six"),
        ("12/01/2026, 31/12/2026", "December first, twenty twenty six, December thirty first, twenty twenty six"),
        ("Dec 1, 2026", "December first, twenty twenty six"),
        ("Dec. 25th", "December twenty fifth"),
        ("1 December 2026", "the first of December, twenty twenty six"),
        ("in Jan 2026", "in January twenty twenty six"),
        ("2026-99-99", "two thousand and twenty six ninety nine ninety nine"),
    ],
    "phones": [
        ("555-1234", "five five five, one two three four"),
        ("+1 (555) 123-4567", "plus one, five five five, one two three, four five six seven"),
    ],
    "units": [
        ("5 km, 10kg, 60 mph", "five kilometers, ten kilograms, sixty miles per hour"),
        ("1 km, 20°C, -3.5 °F", "one kilometer, twenty degrees celsius, minus three point five degrees fahrenheit"),
        ("50%, 2.5 %", "fifty percent, two point five percent"),
    ],
    "addresses": [
        ("bob.smith@example.com", "bob dot smith at example dot com"),
        ("https://example.com/a-b?x=1.", "example dot com slash a dash b question mark x equals one."),
        ("www.example.com/", "w w w dot example dot com"),
        ("See example.org, please", "See example dot org, please"),
    ],
    "abbreviations": [
        ("Dr. Smith vs. Mr. Jones", "Doctor Smith versus Mister Jones"),
        ("e.g. this, i.e. that", "for example this, that is that"),
        ("St. Paul, Main St. here", "Saint Paul, Main Street here"),
        ("approx. 5 etc.", "approximately five et cetera"),
        ("No. 5, p. 3", "number five, page three"),
        ("the U.S. law", "the U S law"),
    ],
    "symbols": [
        ("A & B + C = D", "A and B plus C equals D"),
        ("#5 #fun ~10", "number five hashtag fun about ten"),
        ("Hello 😀 world 👨‍👩‍👧!", "Hello world!"),
        ("“quoted” ‘x’ — dash… end", "\"quoted\" 'x', dash... end"),
        ("café naïve Straße", "cafe naive Strasse"),
        ("**bold** _it_ `code`", "bold it code"),
        ("wait--what - no", "wait, what, no"),
        ("One\n\nTwo\n- item", "One. Two, item"),
        ("你好", ""),
        ("!!! ???", ""),
        ("Really??!!", "Really?!"),
    ],
    "controls": [("<|emotion:joy|>Hi<|prosody:pause|> 5!", "<|emotion:joy|>Hi<|prosody:pause|> five!")],
}
ROWS = [
    pytest.param(text, spoken.strip(), id=f"{kind}: {text}") for kind, rows in TABLE.items() for text, spoken in rows
]
PIECES = st.sampled_from([text for rows in TABLE.values() for text, _ in rows] + [" ", "\n", "-", ".", "/", "1", "<|"])
any_text = st.one_of(st.text(max_size=80), st.lists(PIECES, max_size=8).map("".join))


@pytest.mark.parametrize(("text", "spoken"), ROWS)
def test_is_read(text: str, spoken: str) -> None:
    assert normalize_words(text).text == spoken


@settings(max_examples=120)
@given(any_text, st.sampled_from(("en", "en-US", "de", "fr-FR", "ja", "xx", "")))
def test_only_what_the_demo_voice_reads_is_left(text: str, language: str) -> None:
    spoken = CONTROL.sub(" ", normalize_words(text, language).text)
    assert spoken.isascii()
    assert all(character.isalpha() or character in " .,!?;:'\"-()" for character in spoken)
    assert "<unk>" not in TOKENIZER.encode(spoken).tokens
    assert "  " not in normalize_words(text, language).text


@settings(max_examples=120)
@given(any_text)
def test_spans_cover_both_texts_in_order(text: str) -> None:
    normalized = normalize_words(text)
    spans = normalized.spans
    assert bool(spans) == bool(normalized.text)
    if spans:
        assert (spans[0].start, spans[0].source_start) == (0, 0)
        assert (spans[-1].end, spans[-1].source_end) == (len(normalized.text), len(text))
    for span, following in pairwise(spans):
        assert (span.end, span.source_end) == (following.start, following.source_start)
    assert all(span.start < span.end and span.source_start < span.source_end for span in spans)


def test_a_span_leads_back_to_its_number() -> None:
    text = "I paid $4.50 today"
    normalized = normalize_words(text)
    assert [
        text[span.source_start : span.source_end]
        for span in normalized.spans
        if "dollars" in normalized.text[span.start : span.end]
    ] == ["$4.50"]


@pytest.mark.parametrize("piece", ["1", "1,", "a.", " ", "\n", "<|", "1/", "$", "a@", "http://a", "+1 ", "é", "1.1"])
def test_a_long_run_of_anything_is_read_in_one_pass(piece: str) -> None:
    # Patterns that backtrack over the whole text would take minutes here.
    text = piece * 2_000
    assert len(normalize_words(text).text) <= 12 * len(text)


@pytest.mark.parametrize(
    ("language", "spoken"),
    [("de", "funf Hauser"), ("xx", "five Hauser"), ("ja", "five Hauser"), ("en-GB", "five Hauser")],
)
def test_other_languages_spell_plain_numbers_where_they_can(language: str, spoken: str) -> None:
    assert normalize_words("5 Häuser", language).text == spoken
