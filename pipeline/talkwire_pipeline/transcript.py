"""The text of an utterance and where it lies in its audio. Pure; positions count from the utterance's start."""

from __future__ import annotations

from talkwire_pipeline.events import Span


class Transcript:
    """Collects text and the spans of its segments.

    Attributes:
        length: characters so far.
        spans: the segments whose place is known, in order, without gaps in time.
    """

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self.length = 0
        self.spans: list[Span] = []

    def append(self, text: str) -> None:
        """More text."""
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

        Inside a segment the place is estimated from the share that was played, at the last border of a word.
        """
        text = self.text
        heard = 0
        for span in self.spans:
            if played_samples >= span.end_sample:
                heard = span.text_end
            elif played_samples > span.start_sample:
                share = (played_samples - span.start_sample) / (span.end_sample - span.start_sample)
                heard = _word_border(text, span.text_start, span.text_end, share)
        return text[:heard], text[heard:]


def _word_border(text: str, start: int, end: int, share: float) -> int:
    """The last border of a word in the first `share` of `text[start:end]`."""
    place = start + int((end - start) * share)
    while place > start and not text[place - 1].isspace():
        place -= 1
    return place
