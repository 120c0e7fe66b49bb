"""The client's error tree: one class per gRPC status that the service uses, and one table back from the wire."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import grpc
from google.rpc import error_details_pb2, status_pb2

_DETAILS_KEY = "grpc-status-details-bin"
_RESET = "RST_STREAM"


class FieldViolation(NamedTuple):
    """What is wrong with one field, named as the contract names it (`sampling.top_p`)."""

    field: str
    description: str


class TalkwireError(Exception):
    """Base of the tree, and the class of a status that has none of its own.

    `code` is the status, `reason` the server's stable word for the cause (upper snake case, empty where it gave
    none), `violations` the fields that are wrong, `retry_after_s` the seconds after which it is worth trying again.
    """

    code = grpc.StatusCode.UNKNOWN

    def __init__(
        self,
        message: str,
        *,
        reason: str = "",
        violations: tuple[FieldViolation, ...] = (),
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason
        self.violations = violations
        self.retry_after_s = retry_after_s


class InvalidArgument(TalkwireError):
    """Text, a setting or a format is wrong; `violations` name the fields."""

    code = grpc.StatusCode.INVALID_ARGUMENT


class NotFound(TalkwireError):
    """What was named (a voice, an utterance) is not there."""

    code = grpc.StatusCode.NOT_FOUND


class AlreadyExists(TalkwireError):
    """The id of a live utterance was given again."""

    code = grpc.StatusCode.ALREADY_EXISTS


class FailedPrecondition(TalkwireError):
    """The call is right, but not in this state: text for an utterance that has ended, say."""

    code = grpc.StatusCode.FAILED_PRECONDITION


class ResourceExhausted(TalkwireError):
    """The server is full or a quota is used up; `reason` tells which."""

    code = grpc.StatusCode.RESOURCE_EXHAUSTED


class Unavailable(TalkwireError):
    """The server cannot be reached, is warming up or stopping, or one of its stages is down."""

    code = grpc.StatusCode.UNAVAILABLE


class DeadlineExceeded(TalkwireError):
    """A time limit passed."""

    code = grpc.StatusCode.DEADLINE_EXCEEDED


class Cancelled(TalkwireError):
    """The call or the utterance was dropped before its end."""

    code = grpc.StatusCode.CANCELLED


class PermissionDenied(TalkwireError):
    """The caller may not do this."""

    code = grpc.StatusCode.PERMISSION_DENIED


class Unauthenticated(TalkwireError):
    """The caller's credentials are missing or wrong."""

    code = grpc.StatusCode.UNAUTHENTICATED


class Unimplemented(TalkwireError):
    """The server does not have this call."""

    code = grpc.StatusCode.UNIMPLEMENTED


class Internal(TalkwireError):
    """A fault of the server; the message carries an id that is in its log."""

    code = grpc.StatusCode.INTERNAL


_CLASSES: dict[grpc.StatusCode, type[TalkwireError]] = {
    cls.code: cls
    for cls in (
        InvalidArgument,
        NotFound,
        AlreadyExists,
        FailedPrecondition,
        ResourceExhausted,
        Unavailable,
        DeadlineExceeded,
        Cancelled,
        PermissionDenied,
        Unauthenticated,
        Unimplemented,
        Internal,
    )
}
_CODES = {code.value[0]: code for code in grpc.StatusCode}


class RpcFailure(Protocol):
    """What the blocking and the asyncio RPC errors of gRPC have in common."""

    def code(self) -> grpc.StatusCode:
        """The status."""

    def details(self) -> str | None:
        """Its message."""

    def trailing_metadata(self) -> object:
        """Pairs of key and value."""


def from_status(status: status_pb2.Status) -> TalkwireError:
    """The error that a `google.rpc.Status` with its details stands for."""
    reason, retry_after_s = "", None
    violations: list[FieldViolation] = []
    for detail in status.details:
        info, retry, bad = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo(), error_details_pb2.BadRequest()
        if detail.Unpack(info):
            reason = info.reason
        elif detail.Unpack(retry):
            retry_after_s = retry.retry_delay.ToTimedelta().total_seconds()
        elif detail.Unpack(bad):
            violations += [FieldViolation(item.field, item.description) for item in bad.field_violations]
    code = _CODES.get(status.code, grpc.StatusCode.UNKNOWN)
    return _make(code, status.message, reason=reason, violations=tuple(violations), retry_after_s=retry_after_s)


def from_rpc(error: RpcFailure) -> TalkwireError:
    """The error that a failed RPC stands for: its details where the server sent some, else its bare status.

    Behind a proxy a server that dies is a reset stream, which gRPC calls INTERNAL; it is the same as a lost connection.
    """
    for key, value in error.trailing_metadata() or ():  # type: ignore[attr-defined]
        if key == _DETAILS_KEY:
            return from_status(status_pb2.Status.FromString(value))
    code, text = error.code(), error.details() or ""
    lost = code is grpc.StatusCode.INTERNAL and _RESET in text
    return _make(grpc.StatusCode.UNAVAILABLE if lost else code, text)


def _make(
    code: grpc.StatusCode,
    message: str,
    *,
    reason: str = "",
    violations: tuple[FieldViolation, ...] = (),
    retry_after_s: float | None = None,
) -> TalkwireError:
    cls = _CLASSES.get(code, TalkwireError)
    error = cls(message or code.name, reason=reason, violations=violations, retry_after_s=retry_after_s)
    error.code = code
    return error
