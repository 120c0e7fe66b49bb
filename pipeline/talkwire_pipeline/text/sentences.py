"""Where sentences end: sentencex, asked about one place at a time."""

from __future__ import annotations

import sentencex

_CONTEXT_CHARS = 100
# Abbreviations that sentencex takes for ends of English sentences.
_ABBREVIATIONS = frozenset(
    ("approx.", "avg.", "dept.", "est.", "ext.", "fig.", "incl.", "max.", "min.", "resp.", "tel.", "vol.")
)


class Sentences:
    """Answers for one language (a BCP 47 tag; those that sentencex does not know are split like English)."""

    def __init__(self, language: str) -> None:
        self.language = language.replace("_", "-").split("-")[0].lower() or "en"

    def ends(self, sentence: str, following: str) -> bool:
        """Whether `sentence` (the text since the last end, white space included) is whole.

        `following` is the next character; anything but a letter stands for a capital, since quotes and brackets
        open sentences.
        """
        body = sentence.rstrip()
        tail = body[-_CONTEXT_CHARS:]
        if tail.rsplit(maxsplit=1)[-1].lstrip("(\"'").lower() in _ABBREVIATIONS:
            return False
        probe = following if following.isalpha() else "A"
        pieces: list[str] = list(sentencex.segment(self.language, tail + sentence[len(body) :] + probe))
        return len(pieces) > 1 and len(tail) <= sum(map(len, pieces[:-1]))
