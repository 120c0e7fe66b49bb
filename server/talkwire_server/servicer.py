"""The four RPCs over gRPC. Each has one reader and one writer, and frees what it holds in `finally`."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from operator import methodcaller
from typing import Any, TypeVar

import grpc
from google.protobuf.message import Message

from talkwire.v1 import speech_pb2 as pb
from talkwire_pipeline.errors import TalkwireError
from talkwire_server import requests, responses
from talkwire_server.admission import Admission
from talkwire_server.errors import internal_error, refuse, to_status
from talkwire_server.live import Outgoing
from talkwire_server.security.caller import caller
from talkwire_server.session import Session
from talkwire_server.wire import Malformed, parser

log = logging.getLogger(__name__)

SERVICE: str = pb.DESCRIPTOR.services_by_name["SpeechService"].full_name
"""`talkwire.v1.SpeechService`."""
Context = grpc.aio.ServicerContext[Any, Any]
_Q = TypeVar("_Q", bound=Message)
_R = TypeVar("_R", pb.ConverseResponse, pb.SynthesizeResponse)


class SpeechServicer:
    """Implements `talkwire.v1.SpeechService` over one `Admission`."""

    def __init__(self, admission: Admission, version: str) -> None:
        self._admission = admission
        self._version = version

    def handlers(self) -> grpc.GenericRpcHandler:
        """The methods, with deserialisers that do not raise."""

        def codec(request: type[Message]) -> dict[str, Any]:
            limit = self._admission.limits.max_message_bytes
            return {
                "request_deserializer": parser(request, limit),
                "response_serializer": methodcaller("SerializeToString"),
            }

        methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            "Converse": grpc.stream_stream_rpc_method_handler(self.converse, **codec(pb.ConverseRequest)),
            "Synthesize": grpc.unary_stream_rpc_method_handler(self.synthesize, **codec(pb.SynthesizeRequest)),
            "Abort": grpc.unary_unary_rpc_method_handler(self.abort, **codec(pb.AbortRequest)),
            "GetServerInfo": grpc.unary_unary_rpc_method_handler(self.info, **codec(pb.GetServerInfoRequest)),
        }
        return grpc.method_handlers_generic_handler(SERVICE, methods)

    async def converse(self, events: AsyncIterator[pb.ConverseRequest | Malformed], context: Context) -> None:
        """Many utterances on one stream; only its own half-close, silence, drain or a broken line end it."""
        async with self._answered("Converse", context), self._session(context) as session:
            reader = asyncio.create_task(session.read(events))
            try:
                await _accept(context)
                while (outgoing := await session.next()) is not None:
                    await _write(context, _fill(pb.ConverseResponse(), outgoing), outgoing)
            finally:
                reader.cancel()
                await asyncio.gather(reader, return_exceptions=True)

    async def synthesize(self, request: pb.SynthesizeRequest | Malformed, context: Context) -> None:
        """One whole text: a stream of one utterance, whose refusal or failure ends the RPC."""
        async with self._answered("Synthesize", context), self._session(context) as session:
            message = _readable(request)
            session.speak(message)
            while (outgoing := await session.next()) is not None:
                if isinstance(outgoing.payload, TalkwireError):
                    await refuse(context, outgoing.payload, outgoing.request_id)
                response = _fill(pb.SynthesizeResponse(), outgoing)
                response.utterance_id = message.utterance_id
                await _write(context, response, outgoing)

    async def abort(self, request: pb.AbortRequest | Malformed, context: Context) -> pb.AbortResponse:
        """Drops a live utterance of any stream."""
        async with self._answered("Abort", context):
            message = _readable(request)
            played = requests.played_samples(message, "played_samples")
            utterance = self._admission.find(message.server_id, caller.get())
            if utterance is None:
                return pb.AbortResponse(found=False)
            dropped = await asyncio.shield(self._admission.abort(utterance, played))
            return pb.AbortResponse(found=True, aborted=responses.aborted(dropped))
        raise AssertionError("unreachable: a refusal raises")

    async def info(self, request: pb.GetServerInfoRequest | Malformed, context: Context) -> pb.GetServerInfoResponse:
        """What runs here."""
        async with self._answered("GetServerInfo", context):
            _readable(request)
            return responses.server_info(self._admission.pipeline.info, self._admission.pipeline.deploy, self._version)
        raise AssertionError("unreachable: a refusal raises")

    @asynccontextmanager
    async def _session(self, context: Context) -> AsyncIterator[Session]:
        trace = self._admission.tracing.parent(context.invocation_metadata() or ())
        session = Session(self._admission, caller.get(), trace)
        try:
            yield session
        finally:
            session.close()

    @asynccontextmanager
    async def _answered(self, method: str, context: Context) -> AsyncIterator[None]:
        """The life of an RPC: its errors become statuses, and how it ended is counted."""
        begun, code = time.monotonic(), grpc.StatusCode.CANCELLED
        try:
            async with _answering(context):
                yield
            code = grpc.StatusCode.OK
        except grpc.aio.AbortError:
            code = context.code()
            raise
        finally:
            self._admission.metrics.rpc_ended(method, code.name, time.monotonic() - begun)


@asynccontextmanager
async def _answering(context: Context) -> AsyncIterator[None]:
    """Errors become statuses with details; a fault of ours becomes INTERNAL with an id that is in the log."""
    try:
        yield
    except grpc.aio.AbortError:
        raise
    except TalkwireError as error:
        await refuse(context, error)
    except Exception:
        fault, fault_id = internal_error("the call")
        log.exception("fault %s", fault_id)
        await refuse(context, fault, fault_id)


async def _accept(context: Context) -> None:
    """Tells the caller that the call is let in, before it says a word."""
    try:
        await context.send_initial_metadata(())
    except grpc.aio.InternalError as gone:
        raise asyncio.CancelledError from gone


async def _write(context: Context, response: Message, outgoing: Outgoing) -> None:
    """Writes, then says so. A caller who is gone is a cancellation, also where gRPC calls it a failed batch."""
    try:
        await context.write(response)
    except grpc.aio.InternalError as gone:
        raise asyncio.CancelledError from gone
    outgoing.taken()


def _fill(response: _R, outgoing: Outgoing) -> _R:
    """The response with `outgoing` in it."""
    response.utterance_id = outgoing.utterance_id
    payload = outgoing.payload
    value = to_status(payload, outgoing.request_id) if isinstance(payload, TalkwireError) else payload
    field: Message = getattr(response, outgoing.name)
    field.SetInParent()
    field.CopyFrom(value)
    return response


def _readable(request: _Q | Malformed) -> _Q:
    if isinstance(request, Malformed):
        raise request.error
    return request
