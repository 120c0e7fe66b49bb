"""The asyncio client."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing
from enum import IntEnum
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar, Unpack

import grpc
import grpc.aio
from google.protobuf.wrappers_pb2 import Int32Value, StringValue

from talkwire.access import Metadata, Tls, access
from talkwire.audio import Event, Speech, SpeechBuilder
from talkwire.channel import open_async
from talkwire.errors import from_rpc
from talkwire.options import Options, build_start
from talkwire.stream import Stream
from talkwire.v1 import speech_pb2 as pb
from talkwire.v1.speech_pb2_grpc import SpeechServiceStub

if TYPE_CHECKING:
    from talkwire.v1.speech_pb2_grpc import SpeechServiceAsyncStub

DEFAULT_TARGET = "localhost:50051"

_T = TypeVar("_T")


class Health(IntEnum):
    """Answers of the standard gRPC health service."""

    UNKNOWN = 0
    SERVING = 1
    NOT_SERVING = 2
    SERVICE_UNKNOWN = 3


class SpeechClient:
    """One channel to a server, shared by all calls. Every call raises a `TalkwireError` where it fails.

    Use it as a context manager, or call `close`. Making one raises `InvalidArgument` for what does not go together.

    Args:
        target: host and port of the server.
        credentials: gRPC's own, for what `tls` cannot say. Without either the channel is plaintext.
        tls: files of certificates; `Tls()` trusts what gRPC trusts.
        token: goes with every call, over a secure channel or to this machine alone.
        metadata: goes with every call.
    """

    def __init__(
        self,
        target: str = DEFAULT_TARGET,
        *,
        credentials: grpc.ChannelCredentials | None = None,
        tls: Tls | None = None,
        token: str | None = None,
        metadata: Metadata = (),
    ) -> None:
        self._access = access(target, credentials=credentials, tls=tls, token=token, metadata=metadata)
        self._metadata = self._access.metadata
        self._open_channel: grpc.aio.Channel | None = None

    def converse(self) -> Stream:
        """A stream for many utterances: `async with client.converse() as stream`."""
        return Stream(lambda: self._stub.Converse(metadata=self._metadata))

    async def synthesize(
        self, text: str, *, utterance_id: str = "", **options: Unpack[Options]
    ) -> AsyncGenerator[Event, None]:
        """Speaks a whole text: yields its events, the end event last. Leaving the loop drops the call."""
        request = pb.SynthesizeRequest(utterance_id=utterance_id, start=build_start(options), text=text)
        call = self._stub.Synthesize(request, metadata=self._metadata)
        try:
            while isinstance(response := await call.read(), pb.SynthesizeResponse):
                if name := response.WhichOneof("event"):
                    yield getattr(response, name)
        except grpc.aio.AioRpcError as error:
            raise from_rpc(error) from error
        finally:
            call.cancel()

    async def speak(self, text: str, **options: Unpack[Options]) -> Speech:
        """Speaks a whole text and returns it whole. Raises `Cancelled` if somebody aborts it by its server id."""
        builder = SpeechBuilder()
        async with aclosing(self.synthesize(text, **options)) as events:
            async for event in events:
                builder.add(event)
        return builder.build()

    async def abort(
        self, server_id: str, *, played_samples: int | None = None, timeout_s: float = 5.0
    ) -> pb.Aborted | None:
        """Drops an utterance of any stream by its `Started.server_id`; None where no such one is live."""
        request = pb.AbortRequest(server_id=server_id, played_samples=played_samples)
        response = await _answer(self._stub.Abort(request, metadata=self._metadata, timeout=timeout_s))
        return response.aborted if response.found else None

    async def info(self, *, timeout_s: float = 5.0) -> pb.GetServerInfoResponse:
        """What runs there: model, platform, runner, geometry, limits, formats, versions."""
        request = pb.GetServerInfoRequest()
        return await _answer(self._stub.GetServerInfo(request, metadata=self._metadata, timeout=timeout_s))

    async def health(self, service: str = "", *, timeout_s: float = 5.0) -> Health:
        """What the standard health service says of a service, or with "" of the server. Raises `NotFound`."""
        # The two messages of grpc.health.v1 hold one string and one enum, each as field 1, as these wrappers do:
        # the same bytes, without another dependency.
        check = self._channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            request_serializer=StringValue.SerializeToString,
            response_deserializer=Int32Value.FromString,
        )
        response = await _answer(check(StringValue(value=service), metadata=self._metadata, timeout=timeout_s))
        return Health(response.value)

    async def close(self) -> None:
        """Closes the channel; calls that are still open end."""
        channel, self._open_channel = self._open_channel, None
        if channel is not None:
            await channel.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def _channel(self) -> grpc.aio.Channel:
        """Opened on first use: a channel belongs to the event loop that runs then."""
        if self._open_channel is None:
            self._open_channel = open_async(self._access)
        return self._open_channel

    @property
    def _stub(self) -> SpeechServiceAsyncStub:
        return SpeechServiceStub(self._channel)


async def _answer(call: Awaitable[_T]) -> _T:
    try:
        return await call
    except grpc.aio.AioRpcError as error:
        raise from_rpc(error) from error
