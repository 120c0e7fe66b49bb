"""The demo voice through a real server is understood, ends by itself and keeps to itself."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import talkwire_demo
from support.pcm import same
from support.recognise import errors, transcribe, words
from talkwire import SpeechClient
from talkwire.listen import Heard, say
from tools.server import Server, serving

README_WORD_ERROR_RATE = 0.039
SLACK = 0.03
SHORT_LENGTHS = Path(__file__).parent / "short_lengths.tsv"
SHORT_SLACK_S = 0.5
AT_ONCE = 4


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving("--profile", "demo") as server:
        yield server


async def speak_all(target: str, texts: Sequence[str]) -> list[Heard]:
    """Every text with its place as its seed, some at the same time on one stream."""
    places = asyncio.Semaphore(AT_ONCE)
    async with SpeechClient(target) as client, client.converse() as stream:

        async def one(seed: int, text: str) -> Heard:
            async with places:
                return await say(stream, text, seed=seed)

        return await asyncio.gather(*(one(seed, text) for seed, text in enumerate(texts)))


@pytest.mark.speech
async def test_twenty_sentences_are_understood(server: Server) -> None:
    sentences = (talkwire_demo.PATH / "sentences.txt").read_text().splitlines()[:20]
    heard = await speak_all(server.target, sentences)
    assert not [text for text, one in zip(sentences, heard, strict=True) if one.speech.capped]
    wrong = total = 0
    for text, one in zip(sentences, heard, strict=True):
        understood = transcribe(one.speech.audio, one.speech.sample_rate_hz)
        faults = errors(words(text), words(understood))
        wrong, total = wrong + faults, total + len(words(text))
        if faults:
            print(f"{faults} wrong: {text!r} was heard as {understood!r}")
    print(f"word error rate {wrong / total:.1%} ({wrong}/{total})")
    assert wrong / total <= README_WORD_ERROR_RATE + SLACK


async def test_short_texts_have_the_length_they_should(server: Server) -> None:
    """The file says how it was made. A text that trails off into noise or is cut misses by more than the slack."""
    rows = [line.split("\t") for line in SHORT_LENGTHS.read_text().splitlines() if not line.startswith("#")]
    assert len(rows) == 40
    heard = await speak_all(server.target, [text for text, *_ in rows])
    off = {
        text: f"{one.speech.duration_s:.2f} s, not {expected}"
        for (text, expected, *_), one in zip(rows, heard, strict=True)
        if one.speech.capped or abs(one.speech.duration_s - float(expected)) > SHORT_SLACK_S
    }
    assert off == {}


async def test_two_servers_do_not_meet(server: Server) -> None:
    text = "Two of us speak at once."
    with serving("--profile", "demo") as other:
        assert other.target != server.target
        async with SpeechClient(server.target) as client, SpeechClient(other.target) as stranger:
            async with client.converse() as stream, stream.utterance(seed=3) as utterance:
                await utterance.push("I am still speaking. ")
                await utterance.flush()
                await anext(utterance)
                assert utterance.started is not None
                server_id = utterance.started.server_id
                assert await stranger.abort(server_id) is None
                assert await client.abort(server_id) is not None
            ours, theirs = await asyncio.gather(
                client.speak(text, seed=3, geometry="exact"), stranger.speak(text, seed=3, geometry="exact")
            )
        assert same(ours.audio, theirs.audio)
    async with SpeechClient(server.target) as client:
        again = await client.speak(text, seed=3, geometry="exact")
    assert same(again.audio, ours.audio)
