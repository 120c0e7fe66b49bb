"""What is heard follows from text and seed alone: not from company, chunks, the process, or how it is streamed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, takewhile

import numpy as np
import pytest

from support.codecs import Samples, demo_decoder
from support.pcm import same
from talkwire import SpeechClient
from talkwire.listen import say
from talkwire_pipeline.deploy import load
from talkwire_pipeline.events import Audio, Finished
from talkwire_pipeline.geometry import PRESETS
from talkwire_pipeline.messages import Codes, Message, Open, StageName, TalkerDone
from talkwire_pipeline.pipeline import Pipeline, UtteranceRequest
from talkwire_pipeline.sampling import SamplingChoice
from talkwire_pipeline.stages import OnMessage, OnState
from talkwire_pipeline.supervisor import Supervisor
from talkwire_pipeline.voice import segment_seed
from talkwire_server.audio import pcm_s16le
from tools.server import Server, serving

SEED = 11
TEXT = "The same words are spoken twice. Nobody can tell one from the other, whoever else is speaking."
COMPANY = (
    "Yes.",
    "Not today.",
    "The train leaves at nine.",
    "She found the old letter in a drawer, and read it aloud to all of us.",
    "One, two, three, four, five. Six, seven, eight.",
    "Winter came early that year. The lake froze over before anybody had put the boats away. We walked across it.",
    "It rains.",
)
"""Seven that end before, while and after `TEXT` is spoken."""


class RecordedStages(Supervisor):
    """The real stages.

    Attributes:
        codes: frames [T, 8] of every generation, by the seed that it was drawn with.
    """

    codes: dict[int, Codes]

    async def start(self, on_message: OnMessage, on_state: OnState) -> None:
        self.codes = {}
        self._seeds: dict[int, int] = {}

        def record(stage: StageName, message: Message) -> None:
            if isinstance(message, TalkerDone):
                self.codes[self._seeds[message.generation]] = message.codes.copy()
            on_message(stage, message)

        await super().start(record, on_state)

    def send(self, stage: StageName, message: Message) -> None:
        if isinstance(message, Open):
            self._seeds[message.generation] = message.sampling.seed
        super().send(stage, message)

    def take(self, seed: int) -> list[Codes]:
        """What was drawn for an utterance with this seed, segment by segment; it is forgotten here."""
        seeds = takewhile(self.codes.__contains__, (segment_seed(seed, number) for number in count()))
        return [self.codes.pop(each) for each in list(seeds)]


@dataclass(frozen=True)
class Spoken:
    """An utterance: frames of its segments [T, 8], and the chunks of audio [S] that were streamed."""

    segments: list[Codes]
    chunks: list[Samples]

    @property
    def whole_decode(self) -> Samples:
        """The audio of the same frames, each segment decoded in one piece."""
        return np.concatenate([demo_decoder().decode_whole(codes) for codes in self.segments])


async def speak(pipeline: Pipeline, text: str, seed: int) -> list[Samples]:
    """The audio's chunks, whose seams are exact."""
    request = UtteranceRequest(sampling=SamplingChoice(seed=seed), geometry=PRESETS["exact"])
    utterance = pipeline.open(request)
    utterance.push(text)
    utterance.end()
    events = [event async for event in utterance]
    assert isinstance(events[-1], Finished)
    return [event.samples for event in events if isinstance(event, Audio)]


async def speak_alone_and_in_company() -> tuple[Spoken, Spoken]:
    deploy = load("demo")
    stages = RecordedStages(deploy)
    async with Pipeline(deploy, stages) as pipeline:
        chunks = await speak(pipeline, TEXT, SEED)
        alone = Spoken(stages.take(SEED), chunks)
        company = (speak(pipeline, text, seed) for seed, text in enumerate(COMPANY, SEED + 1))
        chunks, *_ = await asyncio.gather(speak(pipeline, TEXT, SEED), *company)
        return alone, Spoken(stages.take(SEED), chunks)


@pytest.fixture(scope="module")
def spoken() -> tuple[Spoken, Spoken]:
    """`TEXT` alone, and beside seven others."""
    return asyncio.run(speak_alone_and_in_company())


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving("--profile", "demo") as server:
        yield server


async def test_a_seed_is_a_voice_alone_and_in_company(server: Server, spoken: tuple[Spoken, Spoken]) -> None:
    async with SpeechClient(server.target) as client, client.converse() as stream:
        alone = await say(stream, TEXT, seed=SEED, geometry="exact")
        beside, *company = await asyncio.gather(
            say(stream, TEXT, seed=SEED, geometry="exact"), *(say(stream, text, seed=SEED) for text in COMPANY)
        )
        other = await say(stream, TEXT, seed=SEED + 1, geometry="exact")
    assert len({len(each.speech.audio) for each in company}) > 4
    assert same(alone.speech.audio, beside.speech.audio)
    assert not same(alone.speech.audio, other.speech.audio)
    assert same(alone.speech.audio, pcm_s16le(spoken[0].whole_decode))  # of another process, too


def test_rows_do_not_depend_on_company(spoken: tuple[Spoken, Spoken]) -> None:
    alone, beside = spoken
    assert len(alone.segments) == len(beside.segments) > 1
    for one, other in zip(alone.segments, beside.segments, strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_is_streamed_is_the_whole_decode(spoken: tuple[Spoken, Spoken]) -> None:
    for each in spoken:
        assert len(each.chunks) > 2 * len(each.segments)
        audio = np.concatenate(each.chunks)
        assert np.abs(audio).max() > 0.1
        np.testing.assert_allclose(audio, each.whole_decode, atol=1e-5)
