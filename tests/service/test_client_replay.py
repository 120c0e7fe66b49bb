"""A stream that is lost before the first audio of an utterance: it is spoken again on another, once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from support.fake_speech import SEED, WORD_SAMPLES, FakeSpeech, serve
from talkwire import Audio, Finished, Flushed, SpeechClient, Started, Timing, Unavailable


@pytest.fixture
def service() -> FakeSpeech:
    service = FakeSpeech()
    service.breaks = 1
    return service


@pytest.fixture
async def client(service: FakeSpeech) -> AsyncIterator[SpeechClient]:
    async with serve(service) as target, SpeechClient(target) as client:
        yield client


async def test_it_is_spoken_again_with_all_its_text_and_its_seed(client: SpeechClient, service: FakeSpeech) -> None:
    async with client.converse() as stream:
        utterance = stream.utterance(voice="broken")
        await anext(utterance)
        for piece in ("three ", "small", " words"):
            await utterance.push(piece)
        await utterance.flush()
        await utterance.end()
        events = [event async for event in utterance]
    assert [type(event) for event in events] == [Flushed, Audio, Audio, Audio, Timing, Finished]
    names = [request.WhichOneof("event") for request in service.requests]
    assert names == ["start", "text", "text", "text", "flush", "end"] * 2
    assert not service.requests[0].start.sampling.HasField("seed")
    assert service.requests[6].start.sampling.seed == SEED
    assert [request.text.text for request in service.requests[7:10]] == ["three ", "small", " words"]


async def test_a_seed_of_ones_own_is_kept(client: SpeechClient, service: FakeSpeech) -> None:
    async with client.converse() as stream, stream.utterance(voice="broken", seed=SEED) as utterance:
        await utterance.push("word")
        await utterance.end()
        assert (await utterance.speech()).audio
    seeds = [request.start.sampling.seed for request in service.requests if request.HasField("start")]
    assert seeds == [SEED, SEED]


async def test_twice_is_a_failure(client: SpeechClient, service: FakeSpeech) -> None:
    service.breaks = 2
    async with client.converse() as stream:
        utterance = stream.utterance(voice="broken")
        await utterance.push("word")
        await utterance.end()
        with pytest.raises(Unavailable, match="the stage is down"):
            await utterance.speech()
        with pytest.raises(Unavailable):
            stream.utterance()
    assert service.breaks == 0


async def test_neighbours_without_audio_go_on_and_those_with_audio_fail(client: SpeechClient) -> None:
    async with client.converse() as stream:
        heard, silent = stream.utterance(voice="endless"), stream.utterance()
        await heard.push("more")
        assert isinstance(await anext(heard), Started)
        assert isinstance(await anext(heard), Audio)
        await silent.push("one two")
        broken = stream.utterance(voice="broken")
        await broken.push("word")
        await broken.end()
        with pytest.raises(Unavailable):
            await heard.speech()
        assert len((await broken.speech()).audio) == 2 * WORD_SAMPLES
        await silent.push(" three")
        await silent.end()
        assert len((await silent.speech()).audio) == 3 * 2 * WORD_SAMPLES
        later = stream.utterance()
        await later.end()
        assert (await later.speech()).duration_s == 0


async def test_what_is_being_dropped_is_not_spoken_again(client: SpeechClient, service: FakeSpeech) -> None:
    async with client.converse() as stream:
        dropped, broken = stream.utterance("deaf", voice="deaf"), stream.utterance(voice="broken")
        await anext(dropped)
        aborting = asyncio.create_task(dropped.abort())
        await asyncio.sleep(0)
        await broken.push("word")
        await broken.end()
        assert await aborting is None
        assert (await broken.speech()).audio
    names = [request.WhichOneof("event") for request in service.requests if request.utterance_id == "deaf"]
    assert names == ["start", "abort"]


async def test_a_server_that_is_gone_is_a_failure_like_any_other(service: FakeSpeech) -> None:
    async with serve(service) as target:
        client = SpeechClient(target)
        stream = client.converse()
        await stream.__aenter__()
        utterance = stream.utterance(voice="deaf")
        await anext(utterance)
    with pytest.raises(Unavailable):
        await utterance.speech()
    await stream.__aexit__(None, None, None)
    await client.close()
