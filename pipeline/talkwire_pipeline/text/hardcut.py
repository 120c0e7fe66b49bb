"""Cuts a text that has no place for a cut. Pure."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from talkwire_pipeline.text.controls import CONTROL

_DIGIT = re.compile(r"\d")


@cache
def _grapheme() -> Any:
    """The pattern of one grapheme cluster. Loaded late: ordinary text never needs it."""
    import regex  # type: ignore[import-untyped]

    return regex.compile(r"\X")


def fitting_chars(text: str, start: int, max_chars: int, digit_chars: int) -> int | None:
    """Index of the first character of `text[start:]` that a segment cannot hold; None: all fit.

    A digit counts as `digit_chars`, anything else as 1.
    """
    piece = text[start : start + max_chars + 1]
    room = max_chars
    if digit_chars > 1 and _DIGIT.search(piece):
        for index, character in enumerate(piece):
            room -= digit_chars if character.isdecimal() else 1
            if room < 0:
                return start + index
        return None
    return start + max_chars if len(piece) > max_chars else None


def hard_cut(text: str, start: int, limit: int) -> int:
    """The last index in `(start, limit]` that is inside no grapheme cluster and no control token.

    Where one of them is longer than that, `limit`, or the token's end.
    """
    opening = text.rfind("<|", start, limit + 1)
    token = CONTROL.match(text, opening) if opening >= 0 else None
    if token and token.end() > limit:
        return opening if opening > start else token.end()
    last = start
    for cluster in _grapheme().finditer(text, start, limit + 1):
        last = cluster.start()
    return last if last > start else max(limit, start + 1)
