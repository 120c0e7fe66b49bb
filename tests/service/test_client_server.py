"""The client against the real server over fake stages."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from talkwire import (
    Aborted,
    Audio,
    Finished,
    Flushed,
    Health,
    InvalidArgument,
    ResourceExhausted,
    SpeechClient,
    Started,
)

TEXT = "The first sentence is here. And this is the second one."


@pytest.fixture
async def client(served: Any) -> AsyncIterator[SpeechClient]:
    async with SpeechClient(f"127.0.0.1:{served.app.port}") as client:
        yield client


async def test_an_utterance_from_words(client: SpeechClient) -> None:
    async with client.converse() as stream:
        utterance = stream.utterance(seed=5)
        for word in TEXT.split(" "):
            await utterance.push(word + " ")
        await utterance.end()
        events = [event async for event in utterance]
    assert isinstance(events[0], Started)
    assert events[0].seed == 5
    assert isinstance(events[-1], Finished)
    chunks = [event for event in events if isinstance(event, Audio)]
    assert [chunk.sequence for chunk in chunks] == list(range(len(chunks)))
    samples = sum(len(chunk.data) // 2 for chunk in chunks)
    assert events[-1].statistics.sample_count == samples > 0


async def test_streamed_and_whole_are_the_same(client: SpeechClient) -> None:
    whole = await client.speak(TEXT, seed=5)
    async with client.converse() as stream:
        utterance = stream.utterance(seed=5)
        await utterance.push(TEXT)
        await utterance.end()
        streamed = await utterance.speech()
    assert streamed.audio == whole.audio
    assert streamed.sample_rate_hz == whole.sample_rate_hz == 24_000
    assert (await client.speak(TEXT, seed=5, encoding="wav")).audio == whole.audio


async def test_abort_on_the_stream_and_from_outside(client: SpeechClient, served: Any) -> None:
    async with client.converse() as stream:
        ours = stream.utterance()
        await ours.push(TEXT)
        aborted = await ours.abort()
        assert aborted is not None
        assert aborted.spoken_text + aborted.unspoken_text == TEXT
        theirs = stream.utterance()
        await theirs.push(TEXT)
        started = await anext(theirs)
        assert isinstance(started, Started)
        outside = await client.abort(started.server_id)
        last = [event async for event in theirs][-1]
        assert isinstance(last, Aborted)
        assert outside == last
        assert await client.abort(started.server_id) is None
    await served.idle()


async def test_flush_comes_after_the_audio_before_it(client: SpeechClient) -> None:
    async with client.converse() as stream, stream.utterance() as utterance:
        await utterance.push("Half a sen")
        await utterance.flush()
        samples = 0
        async for event in utterance:
            if isinstance(event, Audio):
                samples += len(event.data) // 2
            if isinstance(event, Flushed):
                assert event.end_sample == samples > 0
                break


@pytest.mark.parametrize(
    ("options", "field"),
    [({"temperature": 9.0}, "temperature"), ({"top_p": 0.0}, "top_p"), ({"sample_rate_hz": 7}, "sample_rate_hz")],
)
async def test_a_refusal_names_its_field(client: SpeechClient, options: Any, field: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        await client.speak(TEXT, **options)
    assert field in refusal.value.violations[0].field
    async with client.converse() as stream:
        utterance = stream.utterance(**options)
        with pytest.raises(InvalidArgument) as refusal:
            await utterance.speech()
        assert field in refusal.value.violations[0].field
        lives_on = stream.utterance()
        await lives_on.push(TEXT)
        await lives_on.end()
        assert (await lives_on.speech()).audio


async def test_a_full_server_says_when_to_come_back(serve: Callable[..., Awaitable[Any]]) -> None:
    served = await serve("server.max_live_utterances=1")
    async with SpeechClient(f"127.0.0.1:{served.app.port}") as client, client.converse() as stream:
        first = stream.utterance()
        await anext(first)
        with pytest.raises(ResourceExhausted) as refusal:
            await client.speak(TEXT)
        assert refusal.value.reason
        assert refusal.value.retry_after_s is not None


async def test_info_and_health(client: SpeechClient) -> None:
    assert (await client.info()).profile == "demo"
    assert await client.health() is Health.SERVING
