"""The door of the gRPC port: each call is looked at before its handler, and before its first message."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, aclosing, asynccontextmanager
from typing import Any, TypeAlias

import grpc

from talkwire_pipeline.errors import PermissionDeniedError, TalkwireError
from talkwire_server.errors import refuse
from talkwire_server.metrics import Metrics
from talkwire_server.security.caller import Grant, caller, certificate_name
from talkwire_server.security.places import Places
from talkwire_server.security.tokens import Verifier, bearer

HEALTH = "/grpc.health.v1.Health/"
"""Begins the names of the health service's methods."""
_Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
_Context = grpc.aio.ServicerContext[Any, Any]
_KINDS: dict[tuple[bool, bool], tuple[str, Callable[..., _Handler]]] = {
    (False, False): ("unary_unary", grpc.unary_unary_rpc_method_handler),
    (False, True): ("unary_stream", grpc.unary_stream_rpc_method_handler),
    (True, False): ("stream_unary", grpc.stream_unary_rpc_method_handler),
    (True, True): ("stream_stream", grpc.stream_stream_rpc_method_handler),
}
"""Where a handler has its behaviour, by whether requests and responses are streams, and what makes such a handler."""


class Guard(grpc.aio.ServerInterceptor):
    """Lets calls in, and says to all that is behind it who calls (`caller`).

    Args:
        verifier: knows tokens; None: nobody needs one.
        open_health: whether the health service answers without a token.
        places: how many streams there may be.
        metrics: where refusals are counted.
    """

    def __init__(self, verifier: Verifier | None, open_health: bool, places: Places, metrics: Metrics) -> None:
        self._verifier = verifier
        self._open_health = open_health
        self._places = places
        self._metrics = metrics

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[_Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> _Handler | None:
        """The handler of the call, or one that refuses it."""
        try:
            grant = self._admit(handler_call_details)
        except TalkwireError as error:
            return self._refusal(error)
        handler = await continuation(handler_call_details)
        return None if handler is None else self._guarded(handler, grant)

    def _admit(self, details: grpc.HandlerCallDetails) -> Grant:
        """What the call's token stands for. Raises the `TalkwireError` of a refusal."""
        if self._verifier is None or (self._open_health and details.method.startswith(HEALTH)):
            return Grant()
        grant = self._verifier.verify(bearer(details.invocation_metadata or ()))
        method = details.method.rpartition("/")[2]
        if not grant.allows(method):
            may = ", ".join(sorted(grant.methods or ())) or "nothing"
            text = f"{method}: the token may call {may}: ask who runs this server for another"
            raise PermissionDeniedError(text, reason="METHOD_NOT_ALLOWED")
        return grant

    def _refusal(self, error: TalkwireError) -> _Handler:
        async def run(_requests: object, context: _Context) -> None:
            self._metrics.refused(error.reason)
            await refuse(context, error)

        # A stream both ways: gRPC waits for no message before it asks such a handler, and refuses any kind of call.
        return grpc.stream_stream_rpc_method_handler(run)

    def _guarded(self, handler: _Handler, grant: Grant) -> _Handler:
        name, make = _KINDS[bool(handler.request_streaming), bool(handler.response_streaming)]
        behaviour = getattr(handler, name)

        async def run(request: Any, context: _Context) -> Any:
            key = grant.name or certificate_name(context.auth_context())
            caller.set(key)
            if not handler.response_streaming:  # over at once; and an abort must get in where all places are taken
                return await _answer(behaviour, request, context)
            async with self._placed(context, key):
                return await _answer(behaviour, request, context)

        return make(run, handler.request_deserializer, handler.response_serializer)

    @asynccontextmanager
    async def _placed(self, context: _Context, key: str) -> AsyncIterator[None]:
        """Holds a stream's places; ends the RPC where it gets none."""
        with ExitStack() as stack:
            try:
                stack.enter_context(self._places.taken(context.peer(), key))
            except TalkwireError as error:
                self._metrics.refused(error.reason)
                await refuse(context, error)
            yield


async def _answer(behaviour: Callable[..., Any], request: Any, context: _Context) -> Any:
    """What the behaviour answers; what it yields is written."""
    if not inspect.isasyncgenfunction(behaviour):
        return await behaviour(request, context)
    async with aclosing(behaviour(request, context)) as responses:
        async for response in responses:
            await context.write(response)
    return None
