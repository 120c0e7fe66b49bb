"""Where the words of a segment lie in its audio, estimated from its text. Pure.

The talker does not say when it speaks which word. Each word gets a share of the segment's audio by what it takes to
speak it: its letters as the model reads them ("$5" is "five dollars"), and the pause of the marks behind it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from talkwire_pipeline.events import Span
from talkwire_pipeline.text.normalize.spans import Normalized
from talkwire_pipeline.text.segmenter import Segment

_WORD = re.compile(r"\S+")
_LETTERS = re.compile(r"[^\W_]")
# In letters: what a word takes besides its letters, and the pauses behind marks.
_WORD_WEIGHT = 1.0
_PAUSES = {",": 3.0, ";": 3.0, ":": 3.0, "—": 3.0, ".": 5.0, "!": 5.0, "?": 5.0, "…": 5.0}


def word_spans(segment: Segment, body: Normalized, start_sample: int, end_sample: int) -> tuple[Span, ...]:
    """The words of `segment`, in order and without gaps over `[start_sample, end_sample)`, marked as estimated.

    `body` is what the model read; its spans lead back into the segment's text. What is between two words belongs to
    none; a word of which nothing is spoken takes no time.
    """
    words = list(_WORD.finditer(segment.text))
    weights = _weights(body, [(word.start(), word.end()) for word in words])
    total = sum(weights)
    if not total:
        return ()
    ends = _cumulated(weights, (end_sample - start_sample) / total)
    spans, place = [], start_sample
    for word, end in zip(words, ends, strict=True):
        text = (segment.start + word.start(), segment.start + word.end())
        spans.append(Span(*text, place, start_sample + end, "word", exact=False))
        place = start_sample + end
    return tuple(spans)


def _weights(body: Normalized, words: list[tuple[int, int]]) -> list[float]:
    """What each word of the source takes, in letters."""
    weights = [0.0] * len(words)
    index = 0
    for start, end, source, _ in body.spans:
        while index < len(words) - 1 and source >= words[index][1]:
            index += 1
        if words:
            weights[index] += _weight(body.text[start:end])
    return weights


def _weight(text: str) -> float:
    letters = len(_LETTERS.findall(text))
    pause = max((_PAUSES.get(mark, 0.0) for mark in text), default=0.0)
    return letters + pause + (_WORD_WEIGHT if letters else 0.0)


def _cumulated(weights: list[float], scale: float) -> Iterator[int]:
    done = 0.0
    for weight in weights:
        done += weight
        yield round(done * scale)
