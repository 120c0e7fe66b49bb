"""Every way in which an utterance ends early: abort, disconnect, deadline, failure. Nothing may be left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest

from talkwire.v1 import speech_pb2 as pb
from talkwire_pipeline.errors import ResourceExhaustedError
from talkwire_pipeline.fakes import FakeStages
from talkwire_pipeline.messages import Message, Open, PutReference, StageName
from talkwire_pipeline.outlet import FLUSH_LIMIT
from talkwire_pipeline.voice import segment_seed

TEXT = "Hello there, this is a test. And here is one more sentence for it."


def events(responses: list[pb.ConverseResponse], utterance_id: str = "u") -> list[str]:
    return [str(each.WhichOneof("event")) for each in responses if each.utterance_id == utterance_id]


async def test_abort_before_the_first_audio(served: Any) -> None:
    served.stages.hold()
    caller = served.converse()
    await caller.speak("u", TEXT)
    await caller.send("u", abort=pb.Abort())
    got = await caller.until("aborted")
    assert events(got) == ["started", "aborted"]
    assert got[-1].aborted.spoken_text == ""
    assert got[-1].aborted.unspoken_text == TEXT
    served.stages.release()
    assert await caller.rest() == []
    await served.idle()


async def test_abort_while_speaking_drops_the_rest(served: Any) -> None:
    caller = served.converse()
    await caller.send("u", start=pb.Start())
    await caller.send("u", text=TEXT)
    await caller.until("audio")
    await caller.send("u", abort=pb.Abort(played_samples=0))
    got = await caller.until("aborted")
    assert got[-1].aborted.unspoken_text == TEXT
    assert got[-1].aborted.generated_samples > 0
    await served.idle()


async def test_abort_drops_what_is_generated_but_not_taken(serve: Callable[..., Awaitable[Any]]) -> None:
    stages = FakeStages(frames=lambda _prompt: 5_000, max_model_len=20_000)
    long = ("text.cap.base_s=300", "talker.max_model_len=20000", "server.max_buffered_audio_s=600")
    served = await serve(*long, stages=stages, channel=(("grpc.http2.bdp_probe", 0),))
    caller = served.converse()
    await caller.speak("u", TEXT)
    await caller.until("audio")
    await served.until(lambda: stages.live == 0)  # all 200 s are decoded, and the caller has read next to nothing
    await caller.send("u", abort=pb.Abort())
    got = await caller.until("aborted")
    assert sum(len(each.audio.data) for each in got) < 2_000_000
    assert await caller.rest() == []


async def test_abort_before_any_text(served: Any) -> None:
    caller = served.converse()
    await caller.send("u", start=pb.Start())
    await caller.send("u", abort=pb.Abort())
    assert events(await caller.rest()) == ["started", "aborted"]


async def test_a_second_abort_and_late_input_change_nothing(served: Any) -> None:
    served.stages.hold()
    caller = served.converse()
    await caller.speak("u", TEXT)
    for _ in range(3):
        await caller.send("u", abort=pb.Abort())
        await caller.send("u", text="more")
        await caller.send("u", flush=pb.Flush())
    got = [each for each in await caller.rest() if each.WhichOneof("event") != "error"]
    assert events(got) == ["started", "aborted"]


async def test_abort_for_a_finished_one_is_no_error(served: Any) -> None:
    caller = served.converse()
    await caller.speak("u", TEXT)
    await caller.until("finished")
    await caller.send("u", abort=pb.Abort())
    assert await caller.rest() == []


async def test_abort_leaves_the_neighbour_alone(served: Any) -> None:
    served.stages.hold()
    caller = served.converse()
    await caller.speak("u", TEXT)
    await caller.speak("v", TEXT)
    await caller.send("u", abort=pb.Abort())
    await caller.until("aborted")
    served.stages.release()
    assert events(await caller.rest(), "v")[-1] == "finished"


async def test_unary_abort_reaches_another_stream_and_both_are_told_the_same(served: Any) -> None:
    served.stages.hold()
    caller = served.converse()
    await caller.speak("u", TEXT)
    server_id = (await caller.until("started"))[-1].started.server_id
    answer = await served.stub.Abort(pb.AbortRequest(server_id=server_id))
    assert answer.found
    assert answer.aborted.unspoken_text == TEXT
    assert (await caller.until("aborted"))[-1].aborted == answer.aborted
    assert not (await served.stub.Abort(pb.AbortRequest(server_id=server_id))).found


async def test_unary_abort_of_an_unknown_id_finds_nothing(served: Any) -> None:
    for server_id in ("", "nobody", "0" * 32):
        assert not (await served.stub.Abort(pb.AbortRequest(server_id=server_id))).found


async def test_synthesize_can_be_aborted_by_the_unary_call(served: Any) -> None:
    served.stages.hold()
    call = served.stub.Synthesize(pb.SynthesizeRequest(text=TEXT))
    started = await call.read()
    assert (await served.stub.Abort(pb.AbortRequest(server_id=started.started.server_id))).found
    assert (await call.read()).WhichOneof("event") == "aborted"
    assert await call.read() is grpc.aio.EOF


@pytest.mark.parametrize("rpc", ["Converse", "Synthesize"])
async def test_a_caller_who_goes_away_frees_everything(served: Any, rpc: str) -> None:
    served.stages.hold()
    if rpc == "Converse":
        caller = served.converse()
        for name in ("a", "b", "c"):
            await caller.speak(name, TEXT)
        await caller.until("started")
        call = caller.call
    else:
        call = served.stub.Synthesize(pb.SynthesizeRequest(text=TEXT))
        await call.read()
    await served.until(lambda: served.stages.live > 0)
    call.cancel()
    await served.idle()
    assert not served.app.admission.streams


@pytest.mark.parametrize("rpc", ["Converse", "Synthesize"])
async def test_a_caller_who_stops_reading_and_goes_away_frees_everything_without_a_fault(
    serve: Callable[..., Awaitable[Any]], caplog: pytest.LogCaptureFixture, rpc: str
) -> None:
    stages = FakeStages(frames=lambda _prompt: 5_000, max_model_len=20_000)
    long = ("text.cap.base_s=300", "talker.max_model_len=20000", "server.max_buffered_audio_s=2")
    served = await serve(*long, stages=stages, channel=(("grpc.http2.bdp_probe", 0),))
    if rpc == "Converse":
        caller = served.converse()
        await caller.speak("u", TEXT)
        await caller.until("audio")
        call = caller.call
    else:
        call = served.stub.Synthesize(pb.SynthesizeRequest(text=TEXT))
        await call.read()
    await served.stalled()  # the server is inside a write
    call.cancel()
    await served.idle()
    await served.until(lambda: not served.app.admission.streams)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_the_streams_voice_leaves_with_it(serve: Callable[..., Awaitable[Any]]) -> None:
    served = await serve("text.continuity=anchor")
    caller = served.converse()
    await caller.speak("u", TEXT * 3)
    assert events(await caller.rest())[-1] == "finished"
    assert served.stages.sent(PutReference)
    await served.until(lambda: not served.stages.references)


async def test_a_killed_connection_frees_everything(served: Any) -> None:
    served.stages.hold()
    channel = grpc.aio.insecure_channel(f"127.0.0.1:{served.app.port}")
    call = channel.stream_stream(
        "/talkwire.v1.SpeechService/Converse",
        request_serializer=pb.ConverseRequest.SerializeToString,
        response_deserializer=pb.ConverseResponse.FromString,
    )()
    await call.write(pb.ConverseRequest(utterance_id="u", start=pb.Start()))
    await call.write(pb.ConverseRequest(utterance_id="u", text=pb.TextIncrement(text=TEXT)))
    await call.read()
    await channel.close()
    await served.idle()


async def test_the_calls_own_deadline_frees_everything(served: Any) -> None:
    served.stages.hold()
    caller = served.converse(timeout=0.3)
    await caller.speak("u", TEXT)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await caller.until("finished")
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    await served.idle()


async def test_the_utterances_own_limit_fails_it_alone(served: Any) -> None:
    served.stages.hold()
    caller = served.converse()
    await caller.speak("u", TEXT, timeout_s=0.05)
    failed = (await caller.until("failed"))[-1].failed
    assert failed.code == grpc.StatusCode.DEADLINE_EXCEEDED.value[0]
    served.stages.release()
    await caller.speak("v", TEXT)
    assert events(await caller.rest(), "v")[-1] == "finished"
    await served.idle()


async def test_no_audio_in_time_fails_it_alone(served: Any) -> None:
    served.stages.hold()
    caller = served.converse()
    await caller.speak("u", TEXT, first_audio_timeout_s=0.05)
    failed = (await caller.until("failed"))[-1].failed
    assert failed.code == grpc.StatusCode.DEADLINE_EXCEEDED.value[0]
    await served.idle()


@pytest.mark.parametrize("stage", ["talker", "codec"])
async def test_a_generation_that_breaks_fails_its_utterance_alone(served: Any, stage: str) -> None:
    served.stages.fail_next(stage)
    caller = served.converse()
    await caller.speak("u", TEXT)
    await caller.speak("v", TEXT)
    got = await caller.rest()
    # The `end` that crosses the failure is answered by an `error`, which is no end event.
    ends = [name for name in (*events(got, "u"), *events(got, "v")) if name in ("finished", "aborted", "failed")]
    assert sorted(ends) == ["failed", "finished"]
    failed = next(each.failed for each in got if each.WhichOneof("event") == "failed")
    assert failed.code == grpc.StatusCode.INTERNAL.value[0]
    assert "a test made it fail" not in failed.message
    await served.idle()


class Unsendable(FakeStages):
    """Has an edge that cannot carry an `Open` with the seed 13."""

    def send(self, stage: StageName, message: Message) -> None:
        if isinstance(message, Open) and message.sampling.seed == segment_seed(13, 0):
            raise TypeError("no such thing can be sent")
        super().send(stage, message)


async def test_what_cannot_be_sent_fails_its_utterance_alone_and_keeps_no_slot(serve: Any) -> None:
    served = await serve("talker.max_num_seqs=2", "server.max_utterances_per_stream=12", stages=Unsendable(slots=2))
    caller = served.converse()
    for number in range(6):
        await caller.speak(f"bad{number}", TEXT, sampling=pb.Sampling(seed=13))
        await caller.speak(f"good{number}", TEXT)
    got = await caller.rest()
    ends = {each.utterance_id: each.WhichOneof("event") for each in got if each.WhichOneof("event") != "error"}
    assert {name: end for name, end in ends.items() if name.startswith("good")} == {
        f"good{number}": "finished" for number in range(6)
    }
    failed = [each.failed for each in got if each.WhichOneof("event") == "failed"]
    assert [each.code for each in failed] == [grpc.StatusCode.INTERNAL.value[0]] * 6
    assert "no such thing" not in failed[0].message
    await served.idle()


@pytest.mark.parametrize("stage", ["talker", "codec"])
async def test_a_dead_stage_fails_the_live_refuses_the_new_and_the_next_life_serves(served: Any, stage: str) -> None:
    served.stages.hold()
    caller = served.converse()
    await caller.send("u", start=pb.Start())
    await caller.send("u", text=TEXT)
    await served.until(lambda: served.stages.live > 0)
    await caller.until("started")
    served.stages.crash(stage)
    failed = (await caller.until("failed"))[-1].failed
    assert failed.code == grpc.StatusCode.UNAVAILABLE.value[0]
    await caller.send("v", start=pb.Start())
    assert (await caller.receive()).failed.code == grpc.StatusCode.UNAVAILABLE.value[0]
    served.stages.recover(stage)
    served.stages.release()
    await caller.speak("w", TEXT)
    assert events(await caller.rest(), "w")[-1] == "finished"


async def test_a_silent_stream_is_ended_and_says_why(serve: Callable[..., Awaitable[Any]]) -> None:
    served = await serve("server.idle_timeout_s=0.05")
    caller = served.converse()
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await caller.receive()
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert "keepalive" in str(caught.value.details())
    assert not served.app.admission.streams


async def test_a_live_utterance_keeps_a_silent_stream(serve: Callable[..., Awaitable[Any]]) -> None:
    served = await serve("server.idle_timeout_s=0.05")
    caller = served.converse()
    await caller.send("u", start=pb.Start())
    await caller.until("started")
    # Past the limit by a clock that both sides share.
    limit = asyncio.get_running_loop().time() + 0.1
    await served.until(lambda: asyncio.get_running_loop().time() > limit)
    await caller.send("u", text=TEXT)
    assert events(await caller.rest())[-1] == "finished"


async def test_keepalive_moves_the_limit(serve: Callable[..., Awaitable[Any]]) -> None:
    served = await serve("server.idle_timeout_s=0.5")
    caller = served.converse()
    now = asyncio.get_running_loop().time
    end = now() + 1.0
    while now() < end:
        await caller.send(keepalive=pb.Keepalive())
        await asyncio.sleep(0)
    assert await caller.rest() == []


async def test_200_aborts_at_random_moments_leave_nothing(serve: Callable[..., Awaitable[Any]]) -> None:
    served = await serve()
    caller = served.converse()
    for number in range(200):
        name = f"u{number}"
        await caller.send(name, start=pb.Start())
        await caller.send(name, text=TEXT)
        for _ in range(number % 5):
            await asyncio.sleep(0)
        await caller.send(name, abort=pb.Abort())
        await caller.until("aborted")
    await served.idle()
    await caller.speak("last", TEXT)
    assert events(await caller.rest(), "last")[-1] == "finished"


async def test_flushes_that_nobody_takes_the_answers_of_are_bounded(served: Any) -> None:
    served.stages.hold()
    utterance = served.app.pipeline.open()
    utterance.push("Hello there.")
    for _ in range(FLUSH_LIMIT):
        utterance.flush()
    with pytest.raises(ResourceExhaustedError, match="take the answers first"):
        utterance.flush()
    await utterance.abort()
