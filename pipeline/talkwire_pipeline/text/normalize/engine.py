"""One pass over the text: what a rule finds is said in words, the rest is folded to what the model reads."""

from __future__ import annotations

import re
from functools import cache

from talkwire_pipeline.text.controls import CONTROL
from talkwire_pipeline.text.normalize.numbers import Numbers, spelling_language
from talkwire_pipeline.text.normalize.rules import ENGLISH_RULES, NUMBER_RULES, Rule
from talkwire_pipeline.text.normalize.spans import Normalized, SpanBuilder
from talkwire_pipeline.text.normalize.symbols import MARKS, PUNCTUATION, WORDS, canonical, fold

_PAUSES = frozenset(".,!?;:")
_LETTER = rf"[^\W\d_{''.join(word for word in WORDS if word.isalnum())}]"


def normalize_words(text: str, language: str = "en") -> Normalized:
    """`text` in words and marks that a model of words reads, with control tokens kept; spans lead back to `text`.

    The result holds ASCII letters, blanks and ``.,!?;:'"-()`` only. Takes linear time and never fails.
    """
    engine = _engine(spelling_language(language))
    run = _Run(engine.numbers, len(text))
    source = canonical(text)
    for found in engine.pattern.finditer(source):
        run.take(found, engine.rules.get(found.lastgroup or ""))
    return run.out.build()


class _Engine:
    """The rules of a language, in one pattern."""

    def __init__(self, language: str) -> None:
        self.numbers = Numbers(language)
        rules = ENGLISH_RULES if self.numbers.is_english else NUMBER_RULES
        self.rules = {f"rule_{rule.name}": rule for rule in rules}
        parts = [
            f"(?P<control>{CONTROL.pattern})",
            *(f"(?P<rule_{rule.name}>{rule.pattern})" for rule in rules),
            rf"(?P<word>{_LETTER}+(?:'{_LETTER}+)*)",
            # A dash between blanks, or a bullet at a line's beginning, is a pause.
            r"(?P<dash>\s*[—–]\s*|\s+(?:-{1,2}|[*•])\s+|--+)",
            r"(?P<blank>\s+)",
            r"(?P<other>[^\s\d])",
        ]
        self.pattern = re.compile("|".join(parts))


@cache
def _engine(language: str) -> _Engine:
    return _Engine(language)


class _Run:
    """One text on its way through."""

    def __init__(self, numbers: Numbers, length: int) -> None:
        self._numbers = numbers
        self.out = SpanBuilder(length)

    def take(self, found: re.Match[str], rule: Rule | None) -> None:
        """One match of the pattern; `rule` None: it is none of the table's."""
        piece = found[0]
        if rule is not None:
            self._words(rule.say(found, self._numbers), found)
        elif found.lastgroup == "word":
            self._words(fold(piece), found)
        elif found.lastgroup == "control":
            self.out.add(piece, found.start(), found.end())
        elif found.lastgroup == "dash":
            self._mark(", ", found)
        elif found.lastgroup == "blank":
            if piece.count("\n") > 1 and self.out.last.isalnum():
                self._mark(". ", found)
            else:
                self._blank(found)
        else:
            self._other(piece, found)

    def _words(self, words: str, found: re.Match[str]) -> None:
        """Words, kept apart from the words before them."""
        if words:
            apart = " " if self.out.last.isalnum() or self.out.last in _PAUSES else ""
            self.out.add(apart + words, found.start(), found.end())

    def _other(self, character: str, found: re.Match[str]) -> None:
        character = MARKS.get(character, character)
        if character in WORDS:
            self._words(WORDS[character], found)
        elif character == "_":
            self._blank(found)
        elif character and all(mark in PUNCTUATION for mark in character):
            self._mark(character, found)

    def _mark(self, mark: str, found: re.Match[str]) -> None:
        """A mark that pauses stands right behind a word, once; others stand where they are."""
        if mark[0] in _PAUSES:
            if self.out.last == " ":
                self.out.drop_blank()
            if not self.out.last or (self.out.last == mark[0] and mark != "."):
                return
            if mark[0] == "," and self.out.last in _PAUSES:
                mark = " "
        self.out.add(mark, found.start(), found.end())

    def _blank(self, found: re.Match[str]) -> None:
        if self.out.last != " ":
            self.out.add(" ", found.start(), found.end())
