from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from talkwire.errors import InvalidArgument
from talkwire.text import TextDecoder


def cut(data, places):  # type: ignore[no-untyped-def]
    borders = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[low:high] for low, high in pairwise(borders)]


@given(st.text(max_size=40), st.lists(st.integers(0, 1000), max_size=6))
def test_bytes_cut_anywhere_join_to_the_text(text: str, places: list[int]) -> None:
    decoder = TextDecoder()
    assert "".join(decoder.feed(piece) for piece in cut(text.encode(), places)) == text
    decoder.end()


@given(st.text(max_size=40), st.lists(st.integers(0, 1000), max_size=6))
def test_surrogate_pairs_cut_anywhere_join_to_the_text(text: str, places: list[int]) -> None:
    units = text.encode("utf-16-le")
    halves = "".join(chr(units[at] | units[at + 1] << 8) for at in range(0, len(units), 2))
    decoder = TextDecoder()
    assert "".join(decoder.feed(piece) for piece in cut(halves, places)) == text
    decoder.end()


@given(st.text(max_size=40))
def test_plain_text_passes_at_once(text: str) -> None:
    assert TextDecoder().feed(text) == text


@pytest.mark.parametrize("piece", [b"\xff", b"\xc3\x28", "\udc00", "\ud83dx"])
def test_what_can_never_be_text_is_refused(piece: str | bytes) -> None:
    with pytest.raises(InvalidArgument, match="text: ") as refusal:
        TextDecoder().feed(piece)
    assert refusal.value.violations[0].field == "text"


@pytest.mark.parametrize(("half", "other"), [(b"\xc3", "e"), ("\ud83d", b"e")])
def test_half_a_character_is_not_overtaken(half: str | bytes, other: str | bytes) -> None:
    decoder = TextDecoder()
    assert decoder.feed(half) == ""
    with pytest.raises(InvalidArgument):
        decoder.feed(other)


@pytest.mark.parametrize("half", [b"\xf0\x9f", "\ud83d"])
def test_the_end_inside_a_character_is_refused(half: str | bytes) -> None:
    decoder = TextDecoder()
    decoder.feed(half)
    with pytest.raises(InvalidArgument, match="replace what cannot be decoded"):
        decoder.end()
