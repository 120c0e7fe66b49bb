"""Who is served when: fair turns, a reader who is slow, limits of admission."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import grpc
from google.rpc import error_details_pb2, status_pb2

from talkwire.v1 import speech_pb2 as pb
from talkwire_pipeline.fakes import FakeStages
from talkwire_pipeline.messages import Credit

TEXT = "Hello there, this is a test."
SMALL_WINDOW = (("grpc.http2.bdp_probe", 0),)
"""Without the probe gRPC's window stays small, so that a reader who stops is felt at once."""
LONG = ("text.cap.base_s=300", "talker.max_model_len=20000")
"""Lets a short text become minutes of audio."""


def details(status: status_pb2.Status) -> tuple[str, bool]:
    info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
    assert any(each.Unpack(info) for each in status.details)
    return info.reason, any(
        each.Unpack(retry) and retry.retry_delay.ToTimedelta().total_seconds() > 0 for each in status.details
    )


async def test_two_utterances_take_turns(serve: Callable[..., Awaitable[Any]]) -> None:
    stages = FakeStages(frames=lambda _prompt: 500, max_model_len=20_000)
    served = await serve(*LONG, "server.max_buffered_audio_s=60", stages=stages, channel=SMALL_WINDOW)
    stages.hold()
    caller = served.converse()
    for name in ("a", "b"):
        await caller.speak(name, TEXT)
    await caller.until("started")
    await caller.until("started")
    stages.release()
    got = await caller.rest()
    order = [each.utterance_id for each in got if each.WhichOneof("event") == "audio"]
    lead = 0
    for count in range(1, len(order)):
        lead = max(lead, abs(order[:count].count("a") - order[:count].count("b")))
    assert order.count("a") == order.count("b") > 10
    assert lead <= 4  # what one brings before the other may go out; all of one first would be more than 10


async def test_a_reader_who_stops_is_held_back(serve: Callable[..., Awaitable[Any]]) -> None:
    frames = 5_000  # 200 s of audio, 9.6 MB
    stages = FakeStages(frames=lambda _prompt: frames, max_model_len=20_000)
    served = await serve(*LONG, "server.max_buffered_audio_s=2", stages=stages, channel=SMALL_WINDOW)
    caller = served.converse()
    await caller.speak("u", TEXT)
    await caller.until("audio")

    await served.stalled()
    written = sum(message.samples for message in stages.sent(Credit))
    assert written * 2 < 500_000
    assert stages.live == 1
    got = await caller.rest()
    assert got[-1].finished.statistics.sample_count == frames * 960
    last = [each.audio for each in got if each.WhichOneof("event") == "audio"][-1]
    assert last.first_sample + len(last.data) // 2 == frames * 960


async def test_a_stopped_reader_does_not_hold_up_another_stream(serve: Callable[..., Awaitable[Any]]) -> None:
    stages = FakeStages(frames=lambda _prompt: 1_000, max_model_len=20_000)
    served = await serve(*LONG, "server.max_buffered_audio_s=1", stages=stages, channel=SMALL_WINDOW)
    stopped, other = served.converse(), served.converse()
    await stopped.speak("u", TEXT)
    await stopped.until("audio")
    await other.speak("u", TEXT)
    assert (await other.rest())[-1].WhichOneof("event") == "finished"
    assert (await stopped.rest())[-1].WhichOneof("event") == "finished"


async def test_live_utterances_are_limited(serve: Callable[..., Awaitable[Any]]) -> None:
    served = await serve("server.max_live_utterances=2")
    one, other = served.converse(), served.converse()
    for name in ("a", "b"):
        await one.send(name, start=pb.Start())
        await one.until("started")
    await other.send("c", start=pb.Start())
    failed = (await other.receive()).failed
    assert failed.code == grpc.StatusCode.RESOURCE_EXHAUSTED.value[0]
    assert details(failed) == ("LIVE_UTTERANCES", True)
    await one.send("a", abort=pb.Abort())
    await one.until("aborted")
    await other.speak("d", TEXT)
    assert (await other.rest())[-1].WhichOneof("event") == "finished"


async def test_one_streams_utterances_are_limited_for_a_reason_of_its_own(serve: Callable[..., Awaitable[Any]]) -> None:
    served = await serve("server.max_utterances_per_stream=1")
    caller = served.converse()
    await caller.send("a", start=pb.Start())
    await caller.until("started")
    await caller.send("b", start=pb.Start())
    assert details((await caller.receive()).failed) == ("STREAM_UTTERANCES", True)
    neighbour = served.converse()
    await neighbour.speak("a", TEXT)
    assert (await neighbour.rest())[-1].WhichOneof("event") == "finished"


async def test_more_utterances_than_slots_all_speak(serve: Callable[..., Awaitable[Any]]) -> None:
    served = await serve("talker.max_num_seqs=2", stages=FakeStages(slots=2))
    callers = [served.converse() for _ in range(4)]
    for caller in callers:
        for name in "abc":
            await caller.speak(name, TEXT)
    for caller in callers:
        ends = {each.utterance_id: each.WhichOneof("event") for each in await caller.rest()}
        assert ends == dict.fromkeys("abc", "finished")
