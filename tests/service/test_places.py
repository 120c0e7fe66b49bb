"""Limits of streams over real sockets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc

from talkwire.v1 import speech_pb2 as pb
from talkwire.v1 import speech_pb2_grpc
from talkwire_server.security.tokens import line_of

Serve = Callable[..., Awaitable[Any]]
TEXT = "Hello there, this is a test."


def bearing(token: str) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {token}"),)


@pytest.fixture
def tokens(tmp_path: Path) -> str:
    path = tmp_path / "tokens"
    path.write_text(f"{line_of('alice', 'a')}\n{line_of('alice', 'a2')}\n{line_of('bob', 'b')}\n")
    return f"server.auth.tokens_file={path}"


async def refusal(call: Any) -> tuple[str, float]:
    """The reason and the time to wait of a call that finds no place."""
    assert await call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    (details,) = (value for key, value in await call.trailing_metadata() if key == "grpc-status-details-bin")
    info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
    for each in status_pb2.Status.FromString(details).details:
        assert each.Unpack(info) or each.Unpack(retry)
    return info.reason, retry.retry_delay.ToTimedelta().total_seconds()


async def hold(served: Any, **options: Any) -> Any:
    """A stream that is open and has a live utterance."""
    caller = served.converse(**options)
    await caller.send("u", start=pb.Start())
    await caller.until("started")
    return caller


async def test_a_connection_has_so_many_streams(serve: Serve) -> None:
    served = await serve("server.max_streams_per_connection=2")
    first, second = await hold(served), await hold(served)
    assert await refusal(served.converse().call) == ("CONNECTION_STREAMS", 1.0)
    assert await refusal(served.stub.Synthesize(pb.SynthesizeRequest(text=TEXT))) == ("CONNECTION_STREAMS", 1.0)
    watch: Any = health_pb2_grpc.HealthStub(served.channel)
    assert await refusal(watch.Watch(health_pb2.HealthCheckRequest())) == ("CONNECTION_STREAMS", 1.0)
    assert not (await served.stub.Abort(pb.AbortRequest(server_id="x"))).found
    async with served.again() as channel:
        stub: Any = speech_pb2_grpc.SpeechServiceStub(channel)
        responses = [each async for each in stub.Synthesize(pb.SynthesizeRequest(text=TEXT))]
        assert responses[-1].WhichOneof("event") == "finished"
    registry = served.app.metrics.registry
    assert registry.get_sample_value("talkwire_refusals_total", {"reason": "CONNECTION_STREAMS"}) == 3
    first.call.cancel()
    await served.until(lambda: len(served.app.admission.streams) == 1)
    third = await hold(served)
    await second.send("u", abort=pb.Abort())
    await second.rest()
    await third.rest()


async def test_a_key_has_so_many_streams_on_all_its_connections(serve: Serve, tokens: str) -> None:
    served = await serve(tokens, "server.max_streams_per_key=1")
    alice = await hold(served, metadata=bearing("a"))
    async with served.again() as channel:
        stub: Any = speech_pb2_grpc.SpeechServiceStub(channel)
        for token in ("a", "a2"):
            call = stub.Synthesize(pb.SynthesizeRequest(text=TEXT), metadata=bearing(token))
            assert await refusal(call) == ("KEY_STREAMS", 1.0)
    await hold(served, metadata=bearing("b"))
    await alice.send("u", abort=pb.Abort())
    await alice.rest()
    await hold(served, metadata=bearing("a2"))


async def test_streams_that_end_in_any_way_give_their_places_back(serve: Serve, tokens: str) -> None:
    served = await serve(tokens, "server.max_streams_per_key=1", "server.idle_timeout_s=0.05")
    for end in ("cancelled", "refused", "idle", "half-closed", "cancelled"):
        caller = served.converse(metadata=bearing("a"))
        if end == "refused":
            await caller.call.write(b"\xff\xff")
            await caller.until("error")
        if end == "half-closed":
            await caller.rest()
        elif end == "idle":
            assert await caller.call.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        else:
            await caller.send("u", start=pb.Start())
            await caller.until("started")
            caller.call.cancel()
            await served.until(lambda: not served.app.admission.streams)
