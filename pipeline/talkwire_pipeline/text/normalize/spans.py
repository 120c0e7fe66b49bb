"""A text made from another, and which piece came from where."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

_WORDS = re.compile(r"\s+|\S+")


class SourceSpan(NamedTuple):
    """Characters `[start, end)` of the new text came from `[source_start, source_end)` of the source."""

    start: int
    end: int
    source_start: int
    source_end: int


@dataclass(frozen=True, slots=True)
class Normalized:
    """A text and its spans, in order, without gaps on either side; no spans where the text is empty."""

    text: str
    spans: tuple[SourceSpan, ...]


def unchanged(text: str) -> Normalized:
    """The text as it is but for white space around it, with a span for each word."""
    builder = SpanBuilder(len(text))
    for found in _WORDS.finditer(text):
        builder.add(found[0], found.start(), found.end())
    return builder.build()


class SpanBuilder:
    """Collects pieces; a piece that became nothing is counted to the one before it.

    Blanks at the beginning and at the end are dropped, and a mark needs something to stand behind.
    """

    def __init__(self, source_length: int) -> None:
        self._source_length = source_length
        self._pieces: list[tuple[str, int]] = []
        self._last = ""

    @property
    def last(self) -> str:
        """The last character so far; empty: none."""
        return self._last

    def add(self, text: str, source_start: int, source_end: int) -> None:
        """Appends `text`, which came from `[source_start, source_end)`."""
        if not self._pieces:
            text = text.lstrip()
        if text and source_end > source_start:
            self._pieces.append((text, source_start))
            self._last = text[-1]

    def drop_blank(self) -> None:
        """Takes back blanks at the end."""
        while self._pieces and self._last.isspace():
            text, source = self._pieces.pop()
            if text := text.rstrip():
                self._pieces.append((text, source))
            self._last = self._pieces[-1][0][-1] if self._pieces else ""

    def build(self) -> Normalized:
        """The text so far; every span reaches to the next one's source."""
        self.drop_blank()
        if not self._pieces:
            return Normalized("", ())
        starts = [0, *(source for _, source in self._pieces[1:]), self._source_length]
        spans, place = [], 0
        for index, (piece, _) in enumerate(self._pieces):
            spans.append(SourceSpan(place, place + len(piece), starts[index], starts[index + 1]))
            place += len(piece)
        return Normalized("".join(piece for piece, _ in self._pieces), tuple(spans))
