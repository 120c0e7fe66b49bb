"""Places where a text may be cut. Pure; every answer needs one character beyond the place and no more."""

from __future__ import annotations

import re
import unicodedata
from enum import IntEnum

from talkwire_pipeline.text.calendar_names import MONTHS, WEEKDAYS
from talkwire_pipeline.text.sentences import Sentences

_WIDE_ENDS = "。！？｡"
_WIDE_CLAUSES = "，、；："
_WIDE_CLOSERS = "」』）】”"
# Marks that end a phrase although no blank follows them.
_WIDE = _WIDE_ENDS + _WIDE_CLAUSES + _WIDE_CLOSERS + "…"
CANDIDATE = re.compile(rf"<(?:\||\Z)|(?<=[\s{_WIDE}])[^\s{_WIDE}]")
"""First characters after a place, and beginnings of control tokens (or what may become one)."""
_CLOSERS = "\"'’)]}»›*_" + _WIDE_CLOSERS
_CLAUSE_ENDS = ",;:…" + _WIDE_CLAUSES
_DASHES = ("-", "–", "—", "--")
# A date may go on after these: full names and their usual short forms.
_DATE_WORDS = frozenset(name[:length] for name in MONTHS + WEEKDAYS for length in (3, 4, len(name)))
_DIGIT = re.compile(r"\d")
_LETTER = re.compile(r"[^\W\d_]")
_ADDRESS = re.compile(r"[@/\\]|www|\w\.\w")


class Place(IntEnum):
    """How good a place for a cut is."""

    GAP = 0
    """White space inside something that belongs together (a number, a date, an abbreviation)."""
    WORD = 1
    CLAUSE = 2
    SENTENCE = 3


class Places:
    """Judges places in texts of one language."""

    def __init__(self, language: str) -> None:
        self._sentences = Sentences(language)

    def judge(self, sentence: str, following: str) -> Place | None:
        """What the place between `sentence` (all text since the last sentence's end) and `following` is.

        None: it is no place at all.
        """
        body = sentence.rstrip()
        gap = sentence[len(body) :]
        core = body.rstrip(_CLOSERS)
        if not core or unicodedata.category(following)[0] == "M" or following == "\u200d":
            return None
        if not gap and not (core[-1] in _WIDE or body[-1] in _WIDE):
            return None
        if gap.count("\n") > 1:
            return Place.SENTENCE
        if following.isdigit():
            return Place.GAP if gap else None
        return self._judge_words(sentence, core, gap, following)

    def _judge_words(self, sentence: str, core: str, gap: str, following: str) -> Place | None:
        word = core[-80:].rsplit(maxsplit=1)[-1]
        if _is_mark(core[-1]) and self._sentences.ends(sentence, following):
            return Place.SENTENCE
        if word.rstrip(",.") in _DATE_WORDS:
            return Place.GAP
        if core[-1] in _CLAUSE_ENDS or "\n" in gap or word in _DASHES or word.endswith("—"):
            return Place.CLAUSE
        if not gap:
            return None
        return Place.GAP if _DIGIT.search(word) or word.endswith(".") or not _LETTER.search(word) else Place.WORD

    def judge_end(self, sentence: str) -> Place | None:
        """What the end of a text is that has paused: a place only where nothing that comes can belong before it."""
        word = sentence[-80:].rsplit(maxsplit=1)[-1:]
        if not word:
            return None
        if sentence[-1].isspace():
            place = self.judge(sentence, "A")
            return Place.GAP if place == Place.CLAUSE and _DIGIT.search(word[0]) else place
        core = sentence.rstrip(_CLOSERS)
        if not core or not _is_mark(core[-1]):
            return None
        if core[-1] not in _WIDE_ENDS and (_DIGIT.search(word[0]) or _ADDRESS.search(word[0])):
            return None
        return Place.SENTENCE if self._sentences.ends(sentence + " ", "A") else None


def _is_mark(character: str) -> bool:
    """Whether it can end a sentence in some script."""
    return character not in ",;:" + _WIDE_CLAUSES and unicodedata.category(character) == "Po"
