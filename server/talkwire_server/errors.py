"""The one table from our errors to gRPC statuses, with the details that google.rpc defines for them."""

from __future__ import annotations

import uuid
from typing import Any, NoReturn

import grpc
from google.protobuf import duration_pb2
from google.protobuf.message import Message
from google.rpc import error_details_pb2 as details
from google.rpc import status_pb2

from talkwire_pipeline import errors

DOMAIN = "talkwire"
"""`ErrorInfo.domain` of every error of ours."""
DETAILS_KEY = "grpc-status-details-bin"
"""Trailing metadata key under which gRPC carries a `google.rpc.Status`."""
_LONGEST_MESSAGE_BYTES = 1000
"""UTF-8 bytes of a message that are sent; it may quote a value of any length.

A caller's gRPC drops a status whose trailers have more than 8 KiB. A message is in them up to three times: as itself
with three bytes for each that is not ASCII, and in the details with four for three.
"""

CODES: dict[type[errors.TalkwireError], grpc.StatusCode] = {
    errors.InvalidArgumentError: grpc.StatusCode.INVALID_ARGUMENT,
    errors.NotFoundError: grpc.StatusCode.NOT_FOUND,
    errors.AlreadyExistsError: grpc.StatusCode.ALREADY_EXISTS,
    errors.FailedPreconditionError: grpc.StatusCode.FAILED_PRECONDITION,
    errors.UnauthenticatedError: grpc.StatusCode.UNAUTHENTICATED,
    errors.PermissionDeniedError: grpc.StatusCode.PERMISSION_DENIED,
    errors.ResourceExhaustedError: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.UnavailableError: grpc.StatusCode.UNAVAILABLE,
    errors.TimedOutError: grpc.StatusCode.DEADLINE_EXCEEDED,
    errors.InternalError: grpc.StatusCode.INTERNAL,
    errors.DeployError: grpc.StatusCode.INTERNAL,
    errors.CheckpointError: grpc.StatusCode.INTERNAL,
}
"""Which status an error becomes; a subclass takes its nearest base's."""


def code_of(error: errors.TalkwireError) -> grpc.StatusCode:
    """The gRPC status code of an error."""
    return next((CODES[cls] for cls in type(error).__mro__ if cls in CODES), grpc.StatusCode.INTERNAL)


def to_status(error: errors.TalkwireError, request_id: str = "") -> status_pb2.Status:
    """The error as `google.rpc.Status` with `ErrorInfo` and whatever else fits it.

    `request_id` is the utterance's `server_id` or another id that the log has; empty: none.
    """
    number: int = code_of(error).value[0]
    status = status_pb2.Status(code=number, message=_shorten(error.message))
    parts: list[Message] = [details.ErrorInfo(reason=error.reason, domain=DOMAIN)]
    if isinstance(error, errors.InvalidArgumentError) and error.field:
        violation = details.BadRequest.FieldViolation(field=error.field, description=_shorten(error.description))
        parts.append(details.BadRequest(field_violations=[violation]))
    if isinstance(error, errors.ResourceExhaustedError | errors.UnavailableError):
        parts.append(details.RetryInfo(retry_delay=_duration(error.retry_after_s)))
    if request_id:
        parts.append(details.RequestInfo(request_id=request_id))
    for part in parts:
        status.details.add().Pack(part)
    return status


def internal_error(where: str) -> tuple[errors.InternalError, str]:
    """What a caller is told of a fault of ours, and the id that it carries; the log must have the id too."""
    fault_id = uuid.uuid4().hex
    return errors.InternalError(f"{where} failed by a fault of the server; its log has it as {fault_id}"), fault_id


async def refuse(
    context: grpc.aio.ServicerContext[Any, Any], error: errors.TalkwireError, request_id: str = ""
) -> NoReturn:
    """Ends an RPC with the error's status and details; raises what gRPC raises for it."""
    status = to_status(error, request_id)
    await context.abort(code_of(error), status.message, ((DETAILS_KEY, status.SerializeToString()),))


def _shorten(text: str) -> str:
    data = text.encode()
    if len(data) <= _LONGEST_MESSAGE_BYTES:
        return text
    return data[: _LONGEST_MESSAGE_BYTES - 3].decode(errors="ignore") + "..."


def _duration(seconds: float) -> duration_pb2.Duration:
    whole, nanos = divmod(round(seconds * 1e9), 1_000_000_000)
    return duration_pb2.Duration(seconds=whole, nanos=nanos)
