"""Callers who stop reading beside those who do not: what they may hold, and that they lose it in time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from talkwire.v1 import speech_pb2 as pb
from talkwire_pipeline.fakes import FakeStages
from talkwire_pipeline.outlet import FLUSH_LIMIT

TEXT = "Hello there, this is a test."
FRAMES = 2_000
"""80 s of audio, 3.8 MB: far more than lies between a server and a caller who does not read."""
LONG = ("text.cap.base_s=300", "talker.max_model_len=20000")
BUFFERED_S = 1
CHUNK_SAMPLES = 25 * 960
SMALL_WINDOW = (("grpc.http2.bdp_probe", 0), ("grpc.use_local_subchannel_pool", 1))
"""gRPC's window stays small, so that a reader who stops is felt at once; each channel has a connection of its own."""


@pytest.fixture
async def serve_long(serve: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """Starts a server whose every segment has `FRAMES`."""

    async def start(*overrides: str) -> Any:
        stages = FakeStages(frames=lambda _prompt: FRAMES, max_model_len=20_000)
        limit = f"server.max_buffered_audio_s={BUFFERED_S}"
        return await serve(*LONG, limit, *overrides, stages=stages, channel=SMALL_WINDOW)

    return start


def reason(status: status_pb2.Status) -> str:
    info = error_details_pb2.ErrorInfo()
    assert any(each.Unpack(info) for each in status.details)
    return info.reason


def samples(responses: list[pb.ConverseResponse]) -> int:
    return sum(len(each.audio.data) for each in responses) // 2


async def stops_reading(served: Any, caller: Any, utterance_id: str = "u") -> Any:
    """Has it speak, reads the first audio and no more; the server's utterance."""
    await caller.speak(utterance_id, TEXT)
    got = await caller.until("audio")
    return served.app.admission.find(got[0].started.server_id)


def waiting(utterance: Any) -> int:
    """Samples between the codec and a finished write."""
    outlet = utterance.outlet
    return int(outlet.player.outstanding) + sum(owed for _, owed in outlet._unpaid)


@pytest.mark.parametrize("connections", ["one connection", "connections of their own"])
async def test_the_lively_get_all_and_the_stopped_hold_little(serve_long: Any, connections: str) -> None:
    served = await serve_long()
    stopped = [served.converse() for _ in range(4)]
    utterances = [await stops_reading(served, caller) for caller in stopped]
    await served.stalled()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{served.app.port}", options=SMALL_WINDOW) as own:
        if connections != "one connection":
            served.channel = own
        for _ in range(3):
            lively = served.converse()
            await lively.speak("v", TEXT)
            got = await lively.rest()
            assert got[-1].WhichOneof("event") == "finished"
            assert samples(got) == FRAMES * 960
    for utterance in utterances:
        assert 0 < waiting(utterance) <= BUFFERED_S * 24_000 + CHUNK_SAMPLES
        assert len(utterance.outlet) < BUFFERED_S * 25
        assert utterance.outlet.player.received < FRAMES * 960 / 4
    for caller in stopped:
        got = await caller.rest()
        assert got[-1].WhichOneof("event") == "finished"


async def test_who_reads_nothing_for_too_long_fails_and_its_place_is_free_before_it_reads(serve_long: Any) -> None:
    served = await serve_long("server.slow_reader_timeout_s=0.3", "server.max_live_utterances=1")
    stopped, other = served.converse(), served.converse()
    await stops_reading(served, stopped)
    await served.idle()  # while nobody reads
    assert 'talkwire_utterances_total{end="failed"} 1.0' in metrics(served)
    await other.speak("v", TEXT)
    assert samples(await other.rest()) == FRAMES * 960
    got = await stopped.until("failed")
    assert got[-1].failed.code == grpc.StatusCode.RESOURCE_EXHAUSTED.value[0]
    assert reason(got[-1].failed) == "SLOW_READER"
    assert samples(got) < FRAMES * 960 / 4
    await stopped.speak("w", TEXT)
    got = await stopped.rest()
    assert samples(got) == FRAMES * 960
    assert {each.utterance_id for each in got} == {"w"}


def metrics(served: Any) -> str:
    pages: list[bytes] = list(served.app.metrics.wsgi_app()({"PATH_INFO": "/metrics", "REQUEST_METHOD": "GET"}, no))
    return b"".join(pages).decode()


def no(*_: object) -> Any:
    """Takes what a WSGI server would send first."""


@pytest.mark.parametrize("limit", ["timeout", "abort", "unary abort", "stage"])
async def test_whoever_ends_it_a_stopped_readers_place_is_free_before_it_reads(serve_long: Any, limit: str) -> None:
    limit_s = 0.3 if limit == "timeout" else 60
    served = await serve_long("server.max_live_utterances=1", f"server.utterance_timeout_s={limit_s}")
    stopped, other = served.converse(), served.converse()
    utterance = await stops_reading(served, stopped)
    await served.stalled()
    if limit == "abort":
        await stopped.send("u", abort=pb.Abort())
    elif limit == "unary abort":
        assert (await served.stub.Abort(pb.AbortRequest(server_id=utterance.server_id))).found
    elif limit == "stage":
        served.stages.crash("codec")
        served.stages.recover("codec")
    await served.idle()
    await other.speak("v", TEXT)
    assert samples(await other.rest()) == FRAMES * 960
    ends = [each.WhichOneof("event") for each in await stopped.rest()][-1:]
    assert ends == ["aborted" if "abort" in limit else "failed"]


async def test_flushes_of_a_stopped_reader_do_not_pile_up(serve_long: Any) -> None:
    served = await serve_long()
    caller = served.converse()
    await caller.send("u", start=pb.Start())
    await caller.send("u", text=TEXT)
    asked = FLUSH_LIMIT + 200
    for _ in range(asked):
        await caller.send("u", flush=pb.Flush())
    got = await caller.rest()
    names = [each.WhichOneof("event") for each in got]
    refused = {reason(each.error) for each in got if each.WhichOneof("event") == "error"}
    assert names.count("flushed") >= FLUSH_LIMIT
    assert names.count("flushed") + names.count("error") == asked
    assert refused == {"FLUSHES"}
    assert names[-1] == "finished"


async def test_an_answered_flush_makes_room_for_another(served: Any) -> None:
    caller = served.converse()
    await caller.send("u", start=pb.Start())
    await caller.until("started")
    for _ in range(2 * FLUSH_LIMIT):
        await caller.send("u", flush=pb.Flush())
        await caller.until("flushed")
    await caller.send("u", abort=pb.Abort())
    assert [each.WhichOneof("event") for each in await caller.rest()] == ["aborted"]


async def test_what_the_codec_may_decode_ahead_never_grows(serve_long: Any) -> None:
    served = await serve_long()
    caller = served.converse()
    utterance = await stops_reading(served, caller)
    for _ in range(3):  # stops, and reads a little
        await served.stalled()
        assert 0 < waiting(utterance) <= BUFFERED_S * 24_000 + CHUNK_SAMPLES
        for _ in range(5):
            await caller.until("audio")
    caller.call.cancel()
    await served.idle()
