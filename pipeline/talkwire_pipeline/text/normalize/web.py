"""E-mail addresses and URLs, sign by sign."""

from __future__ import annotations

import re

from talkwire_pipeline.text.normalize.numbers import Numbers, digits
from talkwire_pipeline.text.normalize.symbols import fold

_SIGNS = {
    ".": "dot",
    "/": "slash",
    ":": "colon",
    "@": "at",
    "-": "dash",
    "_": "underscore",
    "?": "question mark",
    "=": "equals",
    "&": "and",
    "%": "percent",
    "#": "hash",
    "+": "plus",
    "~": "tilde",
}
_PIECES = re.compile(r"\d+|[^\W\d_]+|.", re.DOTALL)
_MAX_COUNTED_DIGITS = 2


def address(text: str, say: Numbers) -> str:
    """`"https://example.com/a"`: example dot com slash a. The scheme and a last slash are left out."""
    text = re.sub(r"^[a-zA-Z]+://", "", text).rstrip("/")
    return " ".join(word for piece in _PIECES.findall(text) if (word := _piece(piece, say)))


def _piece(piece: str, say: Numbers) -> str:
    if piece.isdecimal():
        return say.cardinal(piece) if len(piece) <= _MAX_COUNTED_DIGITS else digits(piece)
    if piece.lower() == "www":
        return "w w w"
    return _SIGNS.get(piece) or (fold(piece) if piece.isalpha() else "")
