"""The text of an utterance and where it lies in its audio. Pure; positions count from the utterance's start."""

from __future__ import annotations

from talkwire_pipeline.errors import InvalidArgumentError
from talkwire_pipeline.events import Span


class Transcript:
    """Collects text and the spans of its segments.

    Attributes:
        length: characters so far.
        spans: the segments whose place is known, in order, without gaps in time.
        words: the words of those that have some, in order.
    """

    def __init__(self, limit: int) -> None:
        """`limit`: characters that there may be at most."""
        self._limit = limit
        self._pieces: list[str] = []
        self.length = 0
        self.spans: list[Span] = []
        self.words: list[Span] = []

    def append(self, text: str) -> None:
        """More text. Raises `InvalidArgumentError` where it is too long."""
        if self.length + len(text) > self._limit:
            have = f"the utterance would have {self.length + len(text)} characters, at most {self._limit}"
            raise InvalidArgumentError("text.text", have)
        self._pieces.append(text)
        self.length += len(text)

    @property
    def text(self) -> str:
        """All of it, joined."""
        return "".join(self._pieces)

    @property
    def end_sample(self) -> int:
        """One past the last sample of the last known segment."""
        return self.spans[-1].end_sample if self.spans else 0

    def spoken(self, text_start: int, text_end: int, samples: int) -> Span:
        """The next segment: its characters, and how many samples it takes."""
        start = self.end_sample
        span = Span(text_start, text_end, start, start + samples)
        self.spans.append(span)
        return span

    def split(self, played_samples: int) -> tuple[str, str]:
        """What a caller who played so many samples has heard, and the rest; together they are the text.

        Inside a segment a word is heard when all of it was played, by its estimated place.
        """
        text = self.text
        ends = (span.text_end for span in (*self.spans, *self.words) if span.end_sample <= played_samples)
        heard = max(ends, default=0) if played_samples > 0 else 0
        while 0 < heard < len(text) and text[heard].isspace():
            heard += 1
        return text[:heard], text[heard:]
