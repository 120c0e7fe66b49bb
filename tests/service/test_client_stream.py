"""The client's streams against a service on a real socket."""

import asyncio
from collections.abc import AsyncIterator

import grpc.aio
import pytest

from support.fake_speech import BUSY, ENDLESS_BYTES, WORD_SAMPLES, FakeSpeech, serve
from talkwire import (
    AlreadyExists,
    Audio,
    Cancelled,
    DeadlineExceeded,
    FailedPrecondition,
    Finished,
    Flushed,
    InvalidArgument,
    NotFound,
    ResourceExhausted,
    SpeechClient,
    Started,
    Stream,
    Timing,
    Unavailable,
)


@pytest.fixture
def service() -> FakeSpeech:
    return FakeSpeech()


@pytest.fixture
async def client(service: FakeSpeech) -> AsyncIterator[SpeechClient]:
    async with serve(service) as target, SpeechClient(target) as client:
        yield client


async def test_an_utterance_yields_its_events_in_order(client: SpeechClient) -> None:
    async with client.converse() as stream:
        utterance = stream.utterance()
        await utterance.push("two words")
        await utterance.end()
        events = [event async for event in utterance]
    assert [type(event) for event in events] == [Started, Audio, Audio, Timing, Finished]
    assert utterance.ended
    assert utterance.started == events[0]


async def test_speech_holds_all_the_audio(client: SpeechClient) -> None:
    async with client.converse() as stream:
        utterance = stream.utterance(sample_rate_hz=8000)
        await utterance.push("three small words")
        await utterance.end()
        speech = await utterance.speech()
    assert speech.audio == b"\1\0" * (3 * WORD_SAMPLES)
    assert speech.sample_rate_hz == 8000
    assert speech.duration_s == pytest.approx(3 * WORD_SAMPLES / 8000)
    assert speech.timings[0].text_end == len("three small words")


async def test_text_may_be_cut_inside_a_character(client: SpeechClient, service: FakeSpeech) -> None:
    text = "Grüße an 🎧"
    async with client.converse() as stream:
        utterance = stream.utterance()
        for byte in text.encode():
            await utterance.push(bytes([byte]))
        await utterance.end()
        await utterance.speech()
    assert "".join(request.text.text for request in service.requests) == text


async def test_text_that_ends_inside_a_character_is_refused_and_can_be_finished(client: SpeechClient) -> None:
    async with client.converse() as stream:
        utterance = stream.utterance()
        await utterance.push(b"caf\xc3")
        with pytest.raises(InvalidArgument, match=r"text: not UTF-8"):
            await utterance.end()
        await utterance.push(b"\xa9")
        await utterance.end()
        assert (await utterance.speech()).audio


async def test_many_utterances_share_a_stream(client: SpeechClient) -> None:
    async with client.converse() as stream:
        utterances = [stream.utterance() for _ in range(8)]
        for number, utterance in enumerate(utterances):
            await utterance.push("word " * (number + 1))
        for utterance in utterances:
            await utterance.end()
        speeches = await asyncio.gather(*(utterance.speech() for utterance in utterances))
    assert [len(speech.audio) // (2 * WORD_SAMPLES) for speech in speeches] == list(range(1, 9))


async def test_audio_comes_by_itself_up_to_the_end(client: SpeechClient) -> None:
    async with client.converse() as stream:
        utterance, dropped = stream.utterance(), stream.utterance(voice="endless")
        await utterance.push("two words")
        await utterance.end()
        assert [chunk async for chunk in utterance.audio()] == [b"\1\0" * WORD_SAMPLES] * 2
        await dropped.push("more")
        chunks = dropped.audio()
        assert len(await anext(chunks)) == ENDLESS_BYTES
        await dropped.abort()
        assert [chunk async for chunk in chunks] == []
        with pytest.raises(NotFound):
            await anext(stream.utterance(voice="missing").audio())


async def test_text_that_is_not_taken_is_said_where_one_listens(client: SpeechClient) -> None:
    async with client.converse() as stream:
        utterance, dropped = stream.utterance(voice="picky"), stream.utterance(voice="picky")
        for word in ("one", "2", "three", "4"):
            await utterance.push(word)
            await dropped.push(word)
        await utterance.end()
        assert isinstance(await anext(utterance), Started)
        for _ in range(2):
            with pytest.raises(ResourceExhausted, match="the queue is full"):
                await anext(utterance)
        assert (await utterance.speech()).statistics.character_count == len("onethree")
        assert await dropped.abort() is not None
        with pytest.raises(Cancelled):  # its answers went with all that waited
            await dropped.speech()


async def test_a_server_whose_word_is_held_back_is_spoken_to(client: SpeechClient, service: FakeSpeech) -> None:
    service.accepts_at_once = False
    async with client.converse() as stream, stream.utterance() as utterance:
        await utterance.push("word")
        await utterance.end()
        assert (await utterance.speech()).audio


async def test_flush_is_answered(client: SpeechClient) -> None:
    async with client.converse() as stream, stream.utterance() as utterance:
        await utterance.push("now")
        await utterance.flush()
        async for event in utterance:
            if isinstance(event, Flushed):
                break
        assert event.segment_count == 1


async def test_abort_does_not_wait_behind_unread_audio(client: SpeechClient) -> None:
    """Twenty megabytes lie unread; with no task draining them the server's `aborted` could never pass."""
    async with client.converse() as stream:
        utterance = stream.utterance(voice="endless")
        for _ in range(20):
            await utterance.push("more ")
        aborted = await utterance.abort(played_samples=77)
        assert aborted is not None
        assert aborted.unspoken_text == "more " * 20
        assert aborted.generated_samples == 77
        assert [event async for event in utterance] == [aborted]
        again = stream.utterance()
        await again.push("still here")
        await again.end()
        assert (await again.speech()).audio


async def test_an_unread_utterance_does_not_hold_up_its_neighbour(client: SpeechClient) -> None:
    async with client.converse() as stream:
        unread = stream.utterance(voice="endless")
        for _ in range(10):
            await unread.push("more ")
        other = stream.utterance()
        await other.push("hello")
        await other.end()
        assert (await other.speech()).audio
        assert isinstance(await anext(unread), Started)
        waiting = await anext(unread)
        assert isinstance(waiting, Audio)
        assert len(waiting.data) == ENDLESS_BYTES


async def test_abort_is_idempotent(client: SpeechClient, service: FakeSpeech) -> None:
    async with client.converse() as stream:
        utterance = stream.utterance()
        first, second = await asyncio.gather(utterance.abort(), utterance.abort())
        assert first is second is await utterance.abort()
    assert [request.WhichOneof("event") for request in service.requests] == ["start", "abort"]


async def test_abort_after_the_end_drops_what_waits_and_says_nothing(client: SpeechClient) -> None:
    async with client.converse() as stream:
        utterance = stream.utterance()
        await utterance.push("all of it")
        await utterance.end()
        while not utterance.ended:
            await anext(utterance)
        assert await utterance.abort() is None
        assert all(isinstance(event, Finished) for event in [event async for event in utterance])


async def test_an_unanswered_abort_ends(client: SpeechClient) -> None:
    async with client.converse() as stream:
        utterance = stream.utterance(voice="deaf")
        with pytest.raises(DeadlineExceeded, match="u1"):
            await utterance.abort(timeout_s=0.01)


async def test_leaving_an_utterance_aborts_it(client: SpeechClient, service: FakeSpeech) -> None:
    async with client.converse() as stream, stream.utterance(voice="endless") as utterance:
        await utterance.push("more")
    assert service.requests[-1].WhichOneof("event") == "abort"
    assert utterance.ended


async def test_a_refusal_is_raised_where_the_utterance_is_read(client: SpeechClient) -> None:
    async with client.converse() as stream:
        utterance = stream.utterance(voice="missing")
        with pytest.raises(NotFound) as refusal:
            await utterance.speech()
        assert refusal.value.reason == "VOICE_UNKNOWN"
        assert refusal.value.violations == (("voice", "unknown"),)
        with pytest.raises(NotFound):
            await utterance.push("too late")
        busy = stream.utterance(voice="busy")
        with pytest.raises(ResourceExhausted, match=BUSY.message) as full:
            await anext(busy)
        assert full.value.retry_after_s == 1.5
        assert [event async for event in busy] == []
        good = stream.utterance()
        await good.push("the stream lives on")
        await good.end()
        assert (await good.speech()).audio


async def test_an_error_for_a_start_ends_the_wait(client: SpeechClient) -> None:
    async with client.converse() as stream:
        utterance = stream.utterance(voice="strange")
        with pytest.raises(InvalidArgument, match="what is this"):
            await anext(utterance)


async def test_a_broken_stream_fails_all_its_utterances(client: SpeechClient) -> None:
    async with client.converse() as stream:
        first = stream.utterance()
        await stream.utterance(voice="broken").end()
        with pytest.raises(Unavailable, match="the stage is down"):
            await first.speech()
        with pytest.raises(Unavailable):
            stream.utterance()
        assert await first.abort() is None


async def test_a_status_that_grpc_lost_is_a_stream_that_ended() -> None:
    nothing = grpc.aio.Metadata()

    class Call:
        async def write(self, request: object) -> None:
            await asyncio.get_running_loop().create_future()

        async def read(self) -> object:
            lost = "Internal error from Core"
            raise grpc.aio.AioRpcError(grpc.StatusCode.INTERNAL, nothing, nothing, lost)

        def cancel(self) -> None: ...

    async with Stream(Call) as stream:  # type: ignore[arg-type]
        utterance = stream.utterance()
        with pytest.raises(Unavailable, match="on its way"):
            await anext(utterance)


async def test_nobody_waits_for_ever_for_a_server_that_is_not_there() -> None:
    async with serve(FakeSpeech()) as target:
        pass
    async with SpeechClient(target) as client, client.converse() as stream:
        utterance = stream.utterance()
        with pytest.raises(Unavailable):
            await anext(utterance)
        posts = [stream.keepalive() for _ in range(100)]  # more than the outbox holds
        assert all(isinstance(fault, Unavailable) for fault in await asyncio.gather(*posts, return_exceptions=True))


async def test_ids_are_unique_while_live(client: SpeechClient) -> None:
    async with client.converse() as stream:
        utterance = stream.utterance("mine")
        with pytest.raises(AlreadyExists, match="'mine' is live"):
            stream.utterance("mine")
        await utterance.abort()
        assert (stream.utterance("mine")).id == "mine"


@pytest.mark.parametrize("name", ["", "x" * 129])
async def test_ids_have_a_length(client: SpeechClient, name: str) -> None:
    async with client.converse() as stream:
        with pytest.raises(InvalidArgument, match=f"utterance_id: .*{len(name)} characters"):
            stream.utterance(name)


async def test_no_text_after_the_end(client: SpeechClient) -> None:
    async with client.converse() as stream:
        utterance = stream.utterance()
        await utterance.end()
        await utterance.end()
        with pytest.raises(FailedPrecondition, match="after `end`"):
            await utterance.push("more")


async def test_a_stream_is_used_inside_its_context(client: SpeechClient) -> None:
    stream = client.converse()
    with pytest.raises(FailedPrecondition, match="async with"):
        stream.utterance()
    async with stream:
        utterance = stream.utterance()
    with pytest.raises(Cancelled):
        stream.utterance()
    with pytest.raises(Cancelled):
        await utterance.speech()
    with pytest.raises(FailedPrecondition, match="once"):
        await stream.__aenter__()


async def test_a_finished_stream_closes_without_cancelling(client: SpeechClient, service: FakeSpeech) -> None:
    async with client.converse() as stream:
        utterance = stream.utterance()
        await utterance.push("hello")
        await utterance.end()
        await utterance.speech()
    await service.rpc_ended.wait()
    assert service.rpc_completed


async def test_leaving_with_live_utterances_cancels_the_call(client: SpeechClient, service: FakeSpeech) -> None:
    async with client.converse() as stream:
        await anext(stream.utterance(voice="deaf"))
    await service.rpc_ended.wait()
    assert not service.rpc_completed


async def test_a_cancelled_task_cancels_the_call_only_on_leaving(client: SpeechClient, service: FakeSpeech) -> None:
    async with client.converse() as stream:
        utterance = stream.utterance()
        sending = asyncio.create_task(utterance.push("hello"))
        sending.cancel()
        await asyncio.wait({sending})
        await utterance.push(" again")
        await utterance.end()
        assert (await utterance.speech()).audio

    async def hold() -> None:
        async with client.converse() as held:
            waiting.set_result(held.utterance(voice="deaf"))
            await asyncio.get_running_loop().create_future()

    service.rpc_ended.clear()
    service.rpc_completed = False
    waiting = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(hold())
    await anext(await waiting)
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()
    await service.rpc_ended.wait()
    assert not service.rpc_completed


async def test_keepalive_and_metadata_reach_the_server(service: FakeSpeech) -> None:
    async with serve(service) as target, SpeechClient(target, metadata=[("authorization", "Bearer k")]) as client:
        async with client.converse() as stream:
            await stream.keepalive()
            utterance = stream.utterance()
            await anext(utterance)
        assert service.requests[0].WhichOneof("event") == "keepalive"
        assert ("authorization", "Bearer k") in service.metadata
