"""Whatever a caller sends: a clear answer, and the stream lives on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from talkwire.v1 import speech_pb2 as pb

TEXT = "This one is fine."
INVALID = grpc.StatusCode.INVALID_ARGUMENT.value[0]


def reason(status: status_pb2.Status) -> str:
    info = error_details_pb2.ErrorInfo()
    assert any(each.Unpack(info) for each in status.details)
    assert info.domain == "talkwire"
    return info.reason


def fields(status: status_pb2.Status) -> list[str]:
    bad = error_details_pb2.BadRequest()
    return [each.field for part in status.details if part.Unpack(bad) for each in bad.field_violations]


def status_of(error: grpc.aio.AioRpcError) -> status_pb2.Status:
    trailers = dict(error.trailing_metadata() or ())
    return status_pb2.Status.FromString(trailers["grpc-status-details-bin"])


async def lives_on(caller: Any) -> None:
    """The stream still speaks, and ends well."""
    await caller.speak("after", TEXT)
    got = await caller.rest()
    assert got[-1].utterance_id == "after"
    assert got[-1].WhichOneof("event") == "finished"


BAD_STARTS = [
    (pb.Start(sampling=pb.Sampling(seed=-1)), "start.sampling.seed"),
    (pb.Start(sampling=pb.Sampling(temperature=float("nan"))), "start.sampling.temperature"),
    (pb.Start(sampling=pb.Sampling(top_p=1.5)), "start.sampling.top_p"),
    (pb.Start(audio_format=pb.AudioFormat(sample_rate_hz=11_025)), "start.audio_format.sample_rate_hz"),
    (pb.Start(audio_format=pb.AudioFormat(encoding=99)), "start.audio_format.encoding"),  # type: ignore[arg-type]
    (pb.Start(priority=99), "start.priority"),  # type: ignore[arg-type]
    (pb.Start(geometry=pb.Geometry(preset=99)), "start.geometry.preset"),  # type: ignore[arg-type]
    (pb.Start(text_options=pb.TextOptions(continuity=99)), "start.text_options.continuity"),  # type: ignore[arg-type]
    (pb.Start(timeout_s=-1), "start.timeout_s"),
    (pb.Start(language="no such tag"), "start.language"),
]


@pytest.mark.parametrize(("start", "field"), BAD_STARTS)
async def test_a_refused_start_is_answered_by_failed_alone(served: Any, start: pb.Start, field: str) -> None:
    caller = served.converse()
    await caller.send("u", start=start)
    response = await caller.receive()
    assert (response.utterance_id, response.WhichOneof("event")) == ("u", "failed")
    assert response.failed.code == INVALID
    assert fields(response.failed) == [field]
    await lives_on(caller)


@pytest.mark.parametrize(("start", "field"), BAD_STARTS)
async def test_synthesize_ends_with_the_status_instead(served: Any, start: pb.Start, field: str) -> None:
    call = served.stub.Synthesize(pb.SynthesizeRequest(start=start, text=TEXT))
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call.read()
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert fields(status_of(caught.value)) == [field]


async def test_what_the_runner_does_not_sample_with_is_refused_naming_one_that_does(serve: Any) -> None:
    caller = (await serve("talker.model_runner=v2", platform="cuda")).converse()
    await caller.send("u", start=pb.Start(sampling=pb.Sampling(repetition_penalty=1.1)))
    failed = (await caller.until("failed"))[-1].failed
    assert failed.code == grpc.StatusCode.INVALID_ARGUMENT.value[0]
    assert failed.message.startswith("start.sampling.repetition_penalty: 1.1 is not neutral")
    assert "model_runner v1" in failed.message
    await caller.send("v", start=pb.Start(sampling=pb.Sampling(repetition_penalty=1.0, top_k=3)))
    await caller.until("started")


async def test_an_unknown_voice_is_not_found(served: Any) -> None:
    caller = served.converse()
    await caller.send("u", start=pb.Start(voice="nobody"))
    response = await caller.receive()
    assert response.failed.code == grpc.StatusCode.NOT_FOUND.value[0]
    assert "nobody" in response.failed.message
    await lives_on(caller)


@pytest.mark.parametrize("voice", ["x" * 100_000, "\U0001f600" * 100_000])
async def test_a_value_that_no_trailer_holds_does_not_cost_the_status(served: Any, voice: str) -> None:
    call = served.stub.Synthesize(pb.SynthesizeRequest(text=TEXT, start=pb.Start(voice=voice)))
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call.read()
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    assert reason(status_of(caught.value)) == "VOICE_NOT_FOUND"


async def test_a_live_id_twice_is_an_error_that_leaves_the_live_one_alone(served: Any) -> None:
    served.stages.hold()
    caller = served.converse()
    await caller.speak("u", TEXT)
    await caller.until("started")
    await caller.send("u", start=pb.Start())
    error = (await caller.until("error"))[-1]
    assert error.utterance_id == "u"
    assert error.error.code == grpc.StatusCode.ALREADY_EXISTS.value[0]
    served.stages.release()
    assert [each.WhichOneof("event") for each in await caller.rest()][-1] == "finished"


@pytest.mark.parametrize(
    "event",
    [{"text": "hello"}, {"flush": pb.Flush()}, {"end": pb.End()}, {"abort": pb.Abort()}],
    ids=lambda event: next(iter(event)),
)
async def test_an_event_for_an_unknown_id_is_answered_with_that_id(served: Any, event: dict[str, Any]) -> None:
    caller = served.converse()
    await caller.send("nobody", **event)
    response = await caller.receive()
    assert (response.utterance_id, response.WhichOneof("event")) == ("nobody", "error")
    assert response.error.code == grpc.StatusCode.NOT_FOUND.value[0]
    assert reason(response.error) == "UNKNOWN_UTTERANCE"
    await lives_on(caller)


async def test_text_after_the_end_event_is_an_error_of_its_own_kind(served: Any) -> None:
    caller = served.converse()
    await caller.speak("u", TEXT)
    await caller.until("finished")
    await caller.send("u", text="too late")
    response = await caller.receive()
    assert (response.utterance_id, reason(response.error)) == ("u", "UTTERANCE_ENDED")
    await lives_on(caller)


async def test_an_event_without_an_id_or_a_long_one_names_the_field(served: Any) -> None:
    caller = served.converse()
    for utterance_id in ("", "x" * 129):
        await caller.send(utterance_id, start=pb.Start())
        response = await caller.receive()
        assert response.WhichOneof("event") == "error"
        assert fields(response.error) == ["utterance_id"]
    await lives_on(caller)


async def test_a_request_without_an_event_names_the_field(served: Any) -> None:
    caller = served.converse()
    await caller.send("u")
    response = await caller.receive()
    assert (response.utterance_id, fields(response.error)) == ("u", ["event"])
    await lives_on(caller)


@pytest.mark.parametrize(
    "data",
    [b"\xff\xff\xff\xff", b"\x0a\x01u\x1a\x05\x0a\x03\xed\xa0\x80", b"\x0a\x01\xff"],
    ids=["no protobuf", "lone surrogate in the text", "id is not UTF-8"],
)
async def test_malformed_bytes_are_answered_and_the_stream_lives(served: Any, data: bytes) -> None:
    call = served.channel.stream_stream(
        "/talkwire.v1.SpeechService/Converse", response_deserializer=pb.ConverseResponse.FromString
    )()
    await call.write(data)
    response = await call.read()
    assert response.error.code == INVALID
    assert reason(response.error) == "MALFORMED_MESSAGE"
    for event in ({"start": pb.Start()}, {"text": pb.TextIncrement(text=TEXT)}):
        await call.write(pb.ConverseRequest(utterance_id="u", **event).SerializeToString())
    await call.done_writing()
    last = None
    while (response := await call.read()) is not grpc.aio.EOF:
        last = response
    assert last is not None
    assert last.WhichOneof("event") == "finished"


@pytest.mark.parametrize("method", ["Synthesize", "Abort", "GetServerInfo"])
async def test_malformed_bytes_end_the_other_calls_with_the_status(served: Any, method: str) -> None:
    call = served.channel.unary_stream(f"/talkwire.v1.SpeechService/{method}")(b"\xff\xff\xff")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call.read()
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert reason(status_of(caught.value)) == "MALFORMED_MESSAGE"


async def test_a_message_over_our_limit_is_answered_below_the_transports(
    serve: Callable[..., Awaitable[Any]],
) -> None:
    served = await serve("server.max_message_bytes=100000")
    caller = served.converse()
    await caller.send("u", start=pb.Start())
    await caller.until("started")
    await caller.send("u", text="x" * 1_000_000)
    response = await caller.receive()
    assert reason(response.error) == "MESSAGE_TOO_LARGE"
    await caller.send("u", text=TEXT)
    assert (await caller.rest())[-1].WhichOneof("event") == "finished"


async def test_a_megabyte_of_text_is_refused_and_the_utterance_lives(served: Any) -> None:
    caller = served.converse()
    await caller.send("u", start=pb.Start())
    await caller.until("started")
    await caller.send("u", text="word " * 200_000)
    response = await caller.receive()
    assert (response.utterance_id, response.WhichOneof("event")) == ("u", "error")
    assert response.error.code == INVALID
    assert fields(response.error) == ["text.text"]
    await caller.send("u", text=TEXT)
    assert (await caller.rest())[-1].WhichOneof("event") == "finished"


async def test_nul_in_the_text_is_refused_and_the_utterance_lives(served: Any) -> None:
    caller = served.converse()
    await caller.send("u", start=pb.Start())
    await caller.send("u", text="a\0b")
    response = (await caller.until("error"))[-1]
    assert fields(response.error) == ["text.text"]
    await caller.send("u", text=TEXT)
    assert (await caller.rest())[-1].WhichOneof("event") == "finished"


@pytest.mark.parametrize("text", ["", "   \n ", "\U0001f600 \U0001f680", "... !! --", "\u4f60\u597d. \u4e16\u754c."])
async def test_an_utterance_with_nothing_to_speak_fails(served: Any, text: str) -> None:
    caller = served.converse()
    await caller.speak("u", text)
    end = (await caller.until("failed"))[-1]
    assert end.failed.code == INVALID
    assert fields(end.failed)
    await lives_on(caller)


@pytest.mark.parametrize(
    ("text", "field"), [("", "text"), (" ", "text"), ("a\0b", "text"), ("word " * 200_000, "text")]
)
async def test_synthesize_names_the_text(served: Any, text: str, field: str) -> None:
    call = served.stub.Synthesize(pb.SynthesizeRequest(text=text))
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        _ = [each async for each in call]
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert fields(status_of(caught.value)) == [field]


async def test_negative_played_samples_are_named(served: Any) -> None:
    caller = served.converse()
    await caller.send("u", start=pb.Start())
    await caller.send("u", abort=pb.Abort(played_samples=-5))
    response = (await caller.until("error"))[-1]
    assert fields(response.error) == ["abort.played_samples"]
    await caller.send("u", abort=pb.Abort())
    assert (await caller.until("aborted"))[-1].utterance_id == "u"
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await served.stub.Abort(pb.AbortRequest(server_id="x", played_samples=-5))
    assert fields(status_of(caught.value)) == ["played_samples"]


async def test_a_flood_of_errors_waits_for_its_reader_and_none_is_lost(served: Any) -> None:
    caller = served.converse()
    for number in range(500):
        await caller.send(f"nobody-{number}", end=pb.End())
    got = await caller.rest()
    assert [each.utterance_id for each in got] == [f"nobody-{number}" for number in range(500)]
