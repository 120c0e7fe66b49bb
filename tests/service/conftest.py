"""A real server on a free port over fake stages, and a caller that speaks to it through a real channel."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import grpc
import pytest

from talkwire.v1 import speech_pb2 as pb
from talkwire.v1 import speech_pb2_grpc
from talkwire_pipeline.deploy import load
from talkwire_pipeline.fakes import FakeStages
from talkwire_server.app import App


class Caller:
    """One `Converse` stream from the caller's side."""

    def __init__(self, call: Any) -> None:
        self.call = call

    async def send(self, utterance_id: str = "", **event: Any) -> None:
        """Writes one event: `send("u", text="hello")`, `send("u", start={}, ...)`."""
        name, value = next(iter(event.items())) if event else ("", None)
        if name == "text" and isinstance(value, str):
            value = pb.TextIncrement(text=value)
        await self.call.write(pb.ConverseRequest(utterance_id=utterance_id, **({name: value} if name else {})))

    async def speak(self, utterance_id: str, text: str, **start: Any) -> None:
        """Writes a whole utterance."""
        await self.send(utterance_id, start=pb.Start(**start))
        await self.send(utterance_id, text=text)
        await self.send(utterance_id, end=pb.End())

    async def receive(self) -> pb.ConverseResponse | None:
        """The next response; None: the server ended the stream with OK."""
        response = await self.call.read()
        return None if response is grpc.aio.EOF else response

    async def until(self, *names: str) -> list[pb.ConverseResponse]:
        """All responses up to the first that is one of these."""
        got: list[pb.ConverseResponse] = []
        while not got or got[-1].WhichOneof("event") not in names:
            response = await self.receive()
            assert response is not None, f"the stream ended before {names}"
            got.append(response)
        return got

    async def rest(self) -> list[pb.ConverseResponse]:
        """Half-closes; all responses up to the end of the stream."""
        await self.call.done_writing()
        got = []
        while (response := await self.receive()) is not None:
            got.append(response)
        return got


@dataclass
class Served:
    """A server, what is behind it, and a channel to it."""

    app: App
    stages: FakeStages
    channel: grpc.aio.Channel
    stub: Any

    def again(self, credentials: grpc.ChannelCredentials | None = None) -> grpc.aio.Channel:
        """Another connection; its user closes it."""
        return connect(f"127.0.0.1:{self.app.port}", credentials)

    def converse(self, **options: Any) -> Caller:
        """A stream; its `call` writes bytes as they are."""
        method = self.channel.stream_stream(
            "/talkwire.v1.SpeechService/Converse",
            request_serializer=lambda request: request if isinstance(request, bytes) else request.SerializeToString(),
            response_deserializer=pb.ConverseResponse.FromString,
        )
        return Caller(method(**options))

    async def until(self, condition: Callable[[], bool]) -> None:
        """Lets the loop turn until the condition holds; the test's own limit ends a wait in vain."""
        while not condition():  # noqa: ASYNC110 - what is waited for has no event of its own
            await asyncio.sleep(0)

    async def stalled(self) -> None:
        """Until the stages have been told nothing for a while: all that fits between them and the caller is there."""
        clock = asyncio.get_running_loop().time
        seen, since = -1, clock()
        while clock() - since < 0.3:
            if len(self.stages.received) != seen:
                seen, since = len(self.stages.received), clock()
            await asyncio.sleep(0.01)

    async def idle(self) -> None:
        """Until nothing is live and the stages hold nothing."""
        await self.app.admission.empty()
        await self.app.admission.settle()
        await self.until(lambda: self.stages.live == 0)


def connect(target: str, credentials: grpc.ChannelCredentials | None = None, options: Any = ()) -> grpc.aio.Channel:
    """A channel with a connection of its own; without credentials it is plaintext."""
    options = (*options, ("grpc.use_local_subchannel_pool", 1))
    if credentials is None:
        return grpc.aio.insecure_channel(target, options=options)
    return grpc.aio.secure_channel(target, credentials, options=options)


@pytest.fixture
async def serve() -> AsyncIterator[Callable[..., Awaitable[Served]]]:
    """Starts a server: `await serve("server.max_live_utterances=1", channel=..., stages=FakeStages(...))`."""
    async with AsyncExitStack() as stack:

        async def start(
            *overrides: str,
            stages: FakeStages | None = None,
            channel: Any = (),
            platform: str = "cpu",
            credentials: grpc.ChannelCredentials | None = None,
        ) -> Served:
            stages = stages or FakeStages()
            app = App(load("demo", platform=platform, overrides=overrides, environment={}), stages=stages)
            await app.start()
            stack.push_async_callback(app.stop)
            await stack.enter_async_context(app.pipeline)
            stack.push_async_callback(app.stop)
            line = await stack.enter_async_context(connect(f"127.0.0.1:{app.port}", credentials, channel))
            return Served(app, stages, line, speech_pb2_grpc.SpeechServiceStub(line))

        yield start


@pytest.fixture
async def served(serve: Callable[..., Awaitable[Served]]) -> Served:
    """A server as the demo profile has it."""
    return await serve()
