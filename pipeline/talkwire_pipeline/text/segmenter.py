"""Cuts text into speakable segments while it is written. Pure.

Joined segments are the text, and how the text came in pieces changes nothing (but for `flush` and `idle`): every
cut is decided at a place of the text, by what is before it and a bounded piece of what is behind, in order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from talkwire_pipeline.text.controls import (
    CONTROL,
    MAX_CONTROL_CHARS,
    ControlTokens,
    delivery_kind,
    has_voice,
    is_partial,
)
from talkwire_pipeline.text.hardcut import fitting_chars, hard_cut
from talkwire_pipeline.text.places import CANDIDATE, Place, Places


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of the text.

    Attributes:
        text: characters `[start, end)` of the joined text.
        speakable: whether there is a letter, a digit or a sound in it.
        continues: the sentence goes on behind it.
        delivery: the delivery tokens that hold in it, its own included.
    """

    text: str
    start: int
    end: int
    speakable: bool = True
    continues: bool = False
    delivery: tuple[str, ...] = ()


class _Cut(NamedTuple):
    place: int
    continues: bool


@dataclass(slots=True)
class _Open:
    """The segment that is being filled; indices into the buffer. `silent_to`: so far nothing can be spoken."""

    start: int = 0
    scan: int = 0
    sentence: int = 0
    voiced: bool = False
    silent_to: int = 0
    places: dict[Place, int] = field(default_factory=dict)


# By how many segments were spoken before: lengths, in first_segment_chars, from which a place of that kind is taken.
# The first is cut as soon as it carries a second of speech; each later one may wait while the ones before it play.
_NEVER = float("inf")
_RIPE: tuple[dict[Place, float], ...] = (
    {Place.SENTENCE: 0.4, Place.CLAUSE: 0.4, Place.WORD: 1},
    {Place.SENTENCE: 1, Place.CLAUSE: 1, Place.WORD: 2},
    {Place.SENTENCE: 2, Place.CLAUSE: 4, Place.WORD: _NEVER},
    {Place.SENTENCE: 4, Place.CLAUSE: _NEVER, Place.WORD: _NEVER},
)


class Segmenter:
    """Takes text in pieces of any size and gives segments.

    `max_segment_chars` bounds every segment; a digit counts as `digit_chars` there (more than 1 where digits are
    spelt out before they are spoken). `controls` refuses what a text may not hold; None: any token is kept as it is.
    """

    def __init__(
        self,
        language: str = "en",
        max_segment_chars: int = 400,
        first_segment_chars: int = 40,
        controls: ControlTokens | None = None,
        digit_chars: int = 1,
    ) -> None:
        self._max_chars = max_segment_chars
        self._first_chars = first_segment_chars
        self._controls = controls
        self._digit_chars = digit_chars
        self._places = Places(language)
        self._buffer = ""
        self._base = 0
        self._open = _Open()
        self._spoken = 0
        self._delivery: dict[str, str] = {}

    def feed(self, text: str) -> list[Segment]:
        """Takes more text; raises `InvalidArgumentError` for a control token that may not be there."""
        self._buffer += text
        return self._advance()

    def flush(self) -> list[Segment]:
        """All that is there, without waiting for more."""
        segments = self._advance(final=True)
        if self._buffer:
            segments.append(self._take(_Cut(len(self._buffer), False)))
            self._trim()
        return segments

    def end(self) -> list[Segment]:
        """The rest of a text that is over; the same as `flush`."""
        return self.flush()

    def idle(self) -> list[Segment]:
        """Up to the last safe place of a text that has paused; an unfinished word stays."""
        segments = self._advance()
        cut = self._idle_cut()
        if cut is not None and has_voice(self._buffer[: cut.place]):
            segments.append(self._take(cut))
            self._trim()
        return segments

    def _advance(self, final: bool = False) -> list[Segment]:
        segments = []
        while (cut := self._find_cut(final)) is not None:
            segments.append(self._take(cut))
        self._trim()
        return segments

    def _find_cut(self, final: bool) -> _Cut | None:
        """The next cut that is certain; None: more text is needed."""
        opened, buffer = self._open, self._buffer
        limit = fitting_chars(buffer, opened.start, self._max_chars, self._digit_chars)
        bound = len(buffer) if limit is None else min(limit + 2, len(buffer))
        while found := CANDIDATE.search(buffer, opened.scan, bound):
            index = found.start()
            if limit is not None and index > limit:
                break
            if not final and buffer[index] == "<" and is_partial(buffer[index : index + MAX_CONTROL_CHARS]):
                return None
            opened.scan = index + 1
            if (cut := self._consider(index)) is not None:
                return cut
        opened.scan = max(opened.scan, bound - 1)
        return None if limit is None else self._overflow(limit)

    def _consider(self, index: int) -> _Cut | None:
        """Takes note of the place at `index`; a cut if the segment should end there."""
        opened, buffer = self._open, self._buffer
        leads = buffer[index] == "<" and self._is_delivery(index)
        if index == opened.start or not self._has_voice(index):
            return None
        place = self._places.judge(buffer[opened.sentence : index], buffer[index])
        if leads:
            return _Cut(index, place != Place.SENTENCE)
        if place is None:
            return None
        opened.places[place] = index
        if place == Place.SENTENCE:
            opened.sentence = index
        return _Cut(index, place < Place.SENTENCE) if self._is_ripe(place, index) else None

    def _is_delivery(self, index: int) -> bool:
        """Whether a delivery token stands at `index`; any other token there is checked."""
        token = CONTROL.match(self._buffer, index)
        if token is None:
            return False
        if self._controls is not None:
            self._controls.check(token[0])
        return delivery_kind(token[0]) is not None

    def _has_voice(self, index: int) -> bool:
        opened = self._open
        if not opened.voiced:
            opened.voiced = has_voice(self._buffer[opened.silent_to : index])
            opened.silent_to = index
        return opened.voiced

    def _is_ripe(self, place: Place, index: int) -> bool:
        """Whether the segment is long enough to end at `index`, a place of that kind. Control tokens do not count."""
        if place == Place.GAP:
            return False
        wanted = _RIPE[min(self._spoken, len(_RIPE) - 1)][place] * self._first_chars
        if place == Place.SENTENCE:
            wanted = min(wanted, self._max_chars / 2)
        if index - self._open.start < wanted:
            return False
        text = self._buffer[self._open.start : index]
        return "<|" not in text or len(CONTROL.sub("", text)) >= wanted

    def _overflow(self, limit: int) -> _Cut:
        """The best cut of a segment that cannot hold the character at `limit`."""
        opened = self._open
        half = opened.start + (limit - opened.start) // 2
        for place, earliest in ((Place.SENTENCE, 0), (Place.CLAUSE, half), (Place.WORD, 0), (Place.GAP, 0)):
            index = opened.places.get(place, -1)
            if index >= earliest:
                return _Cut(index, place < Place.SENTENCE)
        return _Cut(hard_cut(self._buffer, opened.start, limit), True)

    def _idle_cut(self) -> _Cut | None:
        opened, buffer = self._open, self._buffer
        places = {index: place for place, index in opened.places.items() if place > Place.GAP}
        if (unfinished := buffer.rfind("<", opened.scan)) > 0:
            places |= self._judged(unfinished, self._places.judge(buffer[opened.sentence : unfinished], "<"))
        else:
            places |= self._judged(len(buffer), self._places.judge_end(buffer[opened.sentence :]))
        if not places:
            return None
        index = max(places)
        return _Cut(index, places[index] < Place.SENTENCE)

    @staticmethod
    def _judged(index: int, place: Place | None) -> dict[int, Place]:
        return {index: place} if place else {}

    def _take(self, cut: _Cut) -> Segment:
        """The segment up to `cut`; the next one begins there."""
        start = self._open.start
        text = self._buffer[start : cut.place]
        self._note_delivery(text)
        speakable = has_voice(text)
        self._spoken += speakable
        self._open = _Open(cut.place, cut.place, cut.place, silent_to=cut.place)
        place = self._base + start
        return Segment(text, place, place + len(text), speakable, cut.continues, tuple(self._delivery.values()))

    def _note_delivery(self, text: str) -> None:
        for token in CONTROL.findall(text) if "<|" in text else ():
            if (kind := delivery_kind(token)) is not None:
                self._delivery[kind] = token

    def _trim(self) -> None:
        """Forgets the buffer before the open segment."""
        opened = self._open
        shift = opened.start
        if not shift:
            return
        self._buffer = self._buffer[shift:]
        self._base += shift
        opened.scan -= shift
        opened.sentence -= shift
        opened.silent_to -= shift
        opened.places = {place: index - shift for place, index in opened.places.items()}
        opened.start = 0
