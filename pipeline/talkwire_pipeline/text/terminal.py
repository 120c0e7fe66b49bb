"""The mark at the end of what a model is given. Models repeat themselves or run on where a text just stops."""

from __future__ import annotations

import re
import unicodedata

from talkwire_pipeline.text.controls import CONTROL

_CLOSERS = "\"'’”)]}»›」』）】"
_WIDE_MARKS = {".": "。", ",": "，"}
_TOKEN_AT_END = re.compile(rf"{CONTROL.pattern}\Z")
_WIDE_LETTER = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]")


def with_terminal(text: str, mark: str) -> str:
    """`text` with `mark` (`.` or `,`) behind its last word, unless punctuation is there."""
    end = _end_of_words(text)
    last = text[:end].rstrip(_CLOSERS)[-1:]
    if not last or unicodedata.category(last)[0] == "P":
        return text
    mark = _WIDE_MARKS[mark] if _WIDE_LETTER.match(last) else mark
    return text[:end] + mark + text[end:]


def _end_of_words(text: str) -> int:
    """Where blanks and control tokens at the end begin."""
    end = len(text.rstrip())
    while token := _TOKEN_AT_END.search(text, max(0, end - 68), end):
        end = len(text[: token.start()].rstrip())
    return end
