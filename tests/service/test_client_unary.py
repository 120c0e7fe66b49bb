"""The client's other calls against a service on a real socket."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

import talkwire
from support.fake_speech import WORD_SAMPLES, FakeSpeech, serve
from talkwire import Cancelled, Finished, Health, InvalidArgument, NotFound, SpeechClient, Started, Unavailable


@pytest.fixture
def service() -> FakeSpeech:
    return FakeSpeech()


@pytest.fixture
async def target(service: FakeSpeech) -> AsyncIterator[str]:
    async with serve(service) as target:
        yield target


@pytest.fixture
async def client(target: str) -> AsyncIterator[SpeechClient]:
    async with SpeechClient(target) as client:
        yield client


async def test_synthesize_yields_events_and_passes_options(client: SpeechClient, service: FakeSpeech) -> None:
    events = [event async for event in client.synthesize("one two", utterance_id="a", seed=0, geometry="exact")]
    assert isinstance(events[0], Started)
    assert isinstance(events[-1], Finished)
    request = service.synthesized[0]
    assert (request.utterance_id, request.text) == ("a", "one two")
    assert request.start.sampling.HasField("seed")
    assert request.start.geometry.preset == talkwire.v1.speech_pb2.GEOMETRY_PRESET_EXACT


async def test_speak_returns_the_whole(client: SpeechClient) -> None:
    speech = await client.speak("one two")
    assert len(speech.audio) == 2 * 2 * WORD_SAMPLES
    assert speech.statistics.character_count == len("one two")
    assert not speech.capped


async def test_a_wav_stream_loses_its_header(client: SpeechClient) -> None:
    assert (await client.speak("one", encoding="wav")).audio == (await client.speak("one")).audio


async def test_speak_that_is_aborted_elsewhere_raises(client: SpeechClient) -> None:
    with pytest.raises(Cancelled):
        await client.speak("drop me")


async def test_a_refusal_brings_its_details(client: SpeechClient) -> None:
    with pytest.raises(NotFound) as refusal:
        await client.speak("hello", voice="missing")
    assert refusal.value.reason == "VOICE_UNKNOWN"
    assert refusal.value.violations[0].field == "voice"


async def test_leaving_synthesize_cancels_it(client: SpeechClient, service: FakeSpeech) -> None:
    async with aclosing(client.synthesize("word " * 10_000)) as events:
        await anext(events)
    await service.rpc_ended.wait()
    assert not service.rpc_completed


async def test_the_blocking_way(target: str) -> None:
    speech = await asyncio.to_thread(talkwire.speak, "one two", target=target)
    assert len(speech.audio) == 2 * 2 * WORD_SAMPLES
    with pytest.raises(NotFound):
        await asyncio.to_thread(talkwire.speak, "one", target=target, voice="missing")


async def test_a_setting_that_cannot_be_sent_never_leaves(client: SpeechClient, service: FakeSpeech) -> None:
    with pytest.raises(InvalidArgument, match="geometry"):
        await client.speak("hello", geometry="round")  # type: ignore[arg-type]
    assert not service.synthesized


async def test_abort_by_server_id(client: SpeechClient) -> None:
    aborted = await client.abort("live", played_samples=5)
    assert aborted is not None
    assert aborted.generated_samples == 5
    assert await client.abort("gone") is None


async def test_info(client: SpeechClient) -> None:
    assert (await client.info()).server_version == "9.9"


async def test_health_speaks_the_standard_protocol(client: SpeechClient) -> None:
    assert await client.health() is Health.SERVING
    assert await client.health("talkwire.v1.SpeechService") is Health.NOT_SERVING
    with pytest.raises(NotFound):
        await client.health("nobody")


async def test_no_server_is_unavailable() -> None:
    async with serve(FakeSpeech()) as target:
        pass
    async with SpeechClient(target) as client:
        with pytest.raises(Unavailable):
            await client.info()
        with pytest.raises(Unavailable):
            await client.speak("hello")


async def test_a_client_opens_again_after_close(client: SpeechClient) -> None:
    await client.info()
    await client.close()
    await client.close()
    assert (await client.info()).server_version == "9.9"
