"""One `Converse` stream: many utterances, one reader task and one writer task.

The reader drains the call into one buffer per utterance, so that an `aborted` never waits behind audio that nobody
has read. Requests go through one writer task because gRPC cancels the whole call when the task inside `write` is
cancelled: a caller who gives up on `push` must not take the other utterances with it.

Where the call is lost, utterances that have had no audio yet are spoken again on another one, once.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self, Unpack

import grpc
import grpc.aio

from talkwire.errors import (
    AlreadyExists,
    Cancelled,
    FailedPrecondition,
    FieldViolation,
    InvalidArgument,
    TalkwireError,
    Unavailable,
    from_rpc,
    from_status,
)
from talkwire.options import Options, build_start
from talkwire.outbox import Outbox
from talkwire.utterance import Utterance
from talkwire.v1 import speech_pb2 as pb

ConverseCall = grpc.aio.StreamStreamCall[pb.ConverseRequest, pb.ConverseResponse]

_log = logging.getLogger("talkwire")
_CLOSE_S = 1.0
_ACCEPT_S = 1.0
_ID_CHARS = 128
_LOST_CAUSE = "Internal error from Core"


class Stream:
    """Open between `async with` and its end: there is no other way, so the call is always cancelled when dropped."""

    def __init__(self, open_call: Callable[[], ConverseCall]) -> None:
        self._open_call = open_call
        self._live: dict[str, Utterance] = {}
        self._names = (f"u{number}" for number in itertools.count(1))
        self._failure: TalkwireError | None = None
        self._outbox = Outbox()
        self._call: ConverseCall | None = None
        self._half_closed = False

    def utterance(self, utterance_id: str | None = None, **options: Unpack[Options]) -> Utterance:
        """Opens an utterance and returns at once: text can follow without waiting for the server to accept.

        A refusal is raised where the utterance is read. Raises `InvalidArgument` for a setting that cannot be sent,
        `AlreadyExists` for the id of a live utterance, and the stream's failure if it has broken.
        """
        name = next(self._names) if utterance_id is None else utterance_id
        if not 1 <= len(name) <= _ID_CHARS:
            fault = f"{name!r} has {len(name)} characters; 1 to {_ID_CHARS} are allowed"
            raise InvalidArgument(f"utterance_id: {fault}", violations=(FieldViolation("utterance_id", fault),))
        if name in self._live:
            raise AlreadyExists(f"utterance_id: {name!r} is live on this stream; wait for its end or take another")
        request = pb.ConverseRequest(utterance_id=name, start=build_start(options))
        self._check_open()
        self._live[name] = Utterance(name, self._post)
        self._put(request)
        return self._live[name]

    async def keepalive(self) -> None:
        """Resets the stream's idle limit. Raises the stream's failure if it has broken."""
        await self._post(pb.ConverseRequest(keepalive=pb.Keepalive()))

    async def __aenter__(self) -> Self:
        if self._call is not None or self._failure is not None:
            raise FailedPrecondition("a stream is opened once; call `converse` again")
        self._open()
        self._reader = asyncio.create_task(self._read(), name="talkwire-reader")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None and not self._live:
                await self._half_close()
        finally:
            await self._drop()

    def _open(self) -> ConverseCall:
        self._call = call = self._open_call()
        self._writer = asyncio.create_task(self._write(call), name="talkwire-writer")
        return call

    async def _drop(self) -> None:
        """Ends the call and lets go of it and of what holds it: as long as a call is there, so is its connection,
        even when the channel is closed; and whoever keeps the error of an utterance keeps this stream."""
        assert self._call is not None
        self._call.cancel()
        self._reader.cancel()
        self._writer.cancel()
        await asyncio.gather(self._reader, self._writer, return_exceptions=True)
        self._fail(Cancelled("the stream was closed"))
        self._call = None
        del self._reader, self._writer

    async def _half_close(self) -> None:
        """Lets a server that has nothing more to say end the call itself."""
        self._half_closed = True
        self._outbox.put(None)
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                await self._reader

    async def _post(self, request: pb.ConverseRequest) -> None:
        self._check_open()
        await self._outbox.room()
        self._check_open()
        self._put(request)

    def _put(self, request: pb.ConverseRequest) -> None:
        if utterance := self._live.get(request.utterance_id):
            utterance.replay.record(request)
        self._outbox.put(request)

    def _check_open(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._call is None:
            raise FailedPrecondition("the stream is not open; use `async with client.converse() as stream`")

    async def _write(self, call: ConverseCall) -> None:
        """Writes until the half-close. A broken call is the reader's to report."""
        with suppress(grpc.RpcError, asyncio.InvalidStateError):
            await _accepted(call)
            while (request := await self._outbox.take()) is not None:
                await call.write(request)
            await call.done_writing()

    async def _read(self) -> None:
        try:
            while (call := self._call) is not None:
                failure = await self._drain(call)
                if not self._open_again(failure):
                    self._fail(failure)
                    return
        finally:
            self._fail(Cancelled("the stream was closed"))

    async def _drain(self, call: ConverseCall) -> TalkwireError:
        """Delivers what comes on a call, to its end; why it ended."""
        try:
            while isinstance(response := await call.read(), pb.ConverseResponse):
                self._deliver(response)
            return Unavailable("the server ended the stream")
        except grpc.aio.AioRpcError as error:
            return _cause(error)

    def _open_again(self, failure: TalkwireError) -> bool:
        """Speaks again on a new call what had no audio yet. False: there is no such utterance, or no use in it."""
        if not isinstance(failure, Unavailable) or self._half_closed:
            return False
        again: list[pb.ConverseRequest] = []
        for name, utterance in list(self._live.items()):
            requests = utterance.replay.take()
            if requests is None:
                del self._live[name]
                utterance.deliver(failure)
            else:
                again += requests
        if not again:
            return False
        _log.info("the stream was lost and is opened again: %s", failure.message)
        self._writer.cancel()
        self._outbox.clear(again)
        self._open()
        return True

    def _fail(self, failure: TalkwireError) -> None:
        """Ends the stream and every utterance that lives on it. The first failure stands."""
        self._failure = self._failure or failure
        for utterance in self._live.values():
            utterance.deliver(self._failure)
        self._live.clear()
        self._outbox.clear()

    def _deliver(self, response: pb.ConverseResponse) -> None:
        utterance = self._live.get(response.utterance_id)
        match response.WhichOneof("event"):
            case None:
                return  # an event of a later version
            case "error":
                self._complain(from_status(response.error), utterance)
            case "failed":
                if utterance:
                    utterance.deliver(from_status(response.failed))
            case name:
                if utterance:
                    utterance.deliver(getattr(response, name))
        if utterance and utterance.ended:
            self._live.pop(utterance.id, None)

    def _complain(self, error: TalkwireError, utterance: Utterance | None) -> None:
        """An `error` ends nothing, but an utterance that the server has not even begun will never be answered."""
        if utterance is None:
            _log.info("the server refused an event: %s", error.message)
        elif utterance.started is None:
            utterance.deliver(error)
        else:
            utterance.complain(error)


async def _accepted(call: ConverseCall) -> None:
    """Returns when the server has let the call in, or sent it away: a refusal that meets a write is lost (`_cause`).

    Only for so long: somebody between us may hold the server's word back until there is more of it.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(_ACCEPT_S):
            await call.initial_metadata()


def _cause(error: grpc.aio.AioRpcError) -> TalkwireError:
    """What ended the call. When that happens while a request is being written, gRPC may put an error of its own in
    the place of the server's status (grpc issue 36066); what is left to say then is that the stream is gone."""
    if error.code() is grpc.StatusCode.INTERNAL and error.details() == _LOST_CAUSE:
        return Unavailable("the stream ended while a request was on its way to the server")
    return from_rpc(error)
