"""A long text is spoken whole: nothing is lost in its middle, no seam clicks, and no seam makes a player wait."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest

import talkwire_demo
from support.recognise import errors, transcribe, words
from talkwire_pipeline import events
from talkwire_pipeline.deploy import load
from talkwire_pipeline.geometry import SAMPLE_RATE_HZ
from talkwire_pipeline.pipeline import Pipeline, UtteranceRequest
from talkwire_pipeline.sampling import SamplingChoice

README_WORD_ERROR_RATE = 0.039
SLACK = 0.03
LOST = 0.6
"""A segment of which more words than this share are wrong was not spoken."""


@dataclass
class Spoken:
    """An utterance as it came: [S] float32 at 24 kHz, and its segments."""

    samples: npt.NDArray[np.float32]
    spans: list[events.Span]
    reason: str
    chunks: list[int] = field(default_factory=list)


async def speak(text: str) -> Spoken:
    pieces: list[npt.NDArray[np.float32]] = []
    spans: list[events.Span] = []
    async with Pipeline(load("demo", environment={})) as pipeline:
        utterance = pipeline.open(UtteranceRequest(sampling=SamplingChoice(seed=5)))
        utterance.push(text)
        utterance.end()
        async for event in utterance:
            match event:
                case events.Audio():
                    pieces.append(event.samples)
                case events.Timing():
                    spans += [span for span in event.spans if span.kind == "segment"]
                case events.Finished(reason=reason):
                    borders = np.cumsum([len(piece) for piece in pieces])[:-1].tolist()
                    return Spoken(np.concatenate(pieces), spans, reason, borders)
    raise AssertionError("it did not finish")


def long_text(count: int) -> str:
    """At least so many words of the demo voice's published sentences, in an order that repeats none next to itself."""
    sentences = (talkwire_demo.PATH / "sentences.txt").read_text().splitlines()
    order = random.Random(1)
    chosen: list[str] = []
    while sum(len(sentence.split()) for sentence in chosen) < count:
        chosen += order.sample(sentences, len(sentences))
    return " ".join(chosen)


def heard(text: str, spoken: Spoken) -> list[tuple[int, int, str]]:
    """Wrong words, words and what was heard, of each segment."""
    result = []
    for span in spoken.spans:
        expected = words(text[span.text_start : span.text_end])
        samples = spoken.samples[span.start_sample : span.end_sample]
        understood = transcribe((samples.clip(-1, 1) * 32767).astype("<i2").tobytes(), SAMPLE_RATE_HZ)
        result.append((errors(expected, words(understood)), len(expected), understood))
    return result


@pytest.mark.speech
@pytest.mark.parametrize("count", [200, pytest.param(2000, marks=pytest.mark.long)])
async def test_a_long_text_is_spoken_whole(count: int) -> None:
    text = long_text(count)
    spoken = await speak(text)
    assert spoken.reason == "complete"
    assert "".join(text[span.text_start : span.text_end] for span in spoken.spans) == text
    assert all(one.end_sample == two.start_sample for one, two in pairwise(spoken.spans))
    assert spoken.spans[-1].end_sample == len(spoken.samples)
    judged = heard(text, spoken)
    wrong, total = sum(faults for faults, *_ in judged), sum(length for _, length, _ in judged)
    print(
        f"{len(judged)} segments, {len(spoken.samples) / SAMPLE_RATE_HZ:.0f} s, errors {wrong / total:.1%} of {total}"
    )
    assert [understood for faults, length, understood in judged if faults > LOST * length] == []
    assert wrong / total <= README_WORD_ERROR_RATE + SLACK
    steps = np.abs(np.diff(spoken.samples))
    limit = np.percentile(steps, 99)
    seams = [span.start_sample for span in spoken.spans[1:]]
    assert max(steps[seam - 1] for seam in seams) <= limit
    # Chunk borders lie anywhere in speech: together they are as smooth as the body is.
    assert np.percentile([steps[border - 1] for border in spoken.chunks], 90) <= limit
