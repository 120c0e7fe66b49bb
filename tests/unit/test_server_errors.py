from __future__ import annotations

from base64 import b64encode
from urllib.parse import quote

import grpc
import pytest
from google.protobuf.message import Message
from google.rpc import error_details_pb2 as details
from google.rpc import status_pb2

from talkwire_pipeline import errors
from talkwire_server.errors import code_of, internal_error, to_status


def unpack(status: status_pb2.Status, kind: type[Message]) -> list[Message]:
    found = []
    for packed in status.details:
        message = kind()
        if packed.Unpack(message):
            found.append(message)
    return found


@pytest.mark.parametrize(
    ("error", "code", "reason"),
    [
        (errors.InvalidArgumentError("a.b", "is wrong"), grpc.StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT"),
        (errors.NotFoundError("no", reason="UNKNOWN_VOICE"), grpc.StatusCode.NOT_FOUND, "UNKNOWN_VOICE"),
        (errors.AlreadyExistsError("twice"), grpc.StatusCode.ALREADY_EXISTS, "ALREADY_EXISTS"),
        (errors.FailedPreconditionError("not now"), grpc.StatusCode.FAILED_PRECONDITION, "FAILED_PRECONDITION"),
        (errors.UnauthenticatedError("who"), grpc.StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED"),
        (errors.PermissionDeniedError("no"), grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_DENIED"),
        (errors.ResourceExhaustedError("full"), grpc.StatusCode.RESOURCE_EXHAUSTED, "QUEUE_FULL"),
        (errors.UnavailableError("down"), grpc.StatusCode.UNAVAILABLE, "STAGE_DOWN"),
        (errors.TimedOutError("late"), grpc.StatusCode.DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED"),
        (errors.InternalError("ours"), grpc.StatusCode.INTERNAL, "INTERNAL"),
        (errors.TalkwireError("base"), grpc.StatusCode.INTERNAL, "INTERNAL"),
    ],
)
def test_every_error_has_its_status_and_reason(error: errors.TalkwireError, code: grpc.StatusCode, reason: str) -> None:
    status = to_status(error)
    assert code_of(error) is code
    assert status.code == code.value[0]
    assert unpack(status, details.ErrorInfo) == [details.ErrorInfo(reason=reason, domain="talkwire")]


def test_every_class_of_the_tree_is_in_the_table() -> None:
    classes = [
        value for value in vars(errors).values() if isinstance(value, type) and value is not errors.TalkwireError
    ]
    from talkwire_server.errors import CODES

    assert set(CODES) == set(classes)


def test_a_wrong_field_is_named() -> None:
    status = to_status(errors.InvalidArgumentError("start.sampling.top_p", "7 is out of range"))
    [bad] = unpack(status, details.BadRequest)
    assert isinstance(bad, details.BadRequest)
    assert [(each.field, each.description) for each in bad.field_violations] == [
        ("start.sampling.top_p", "7 is out of range")
    ]


def test_an_error_without_a_field_has_no_violation() -> None:
    assert not unpack(to_status(errors.InvalidArgumentError("", "no protobuf")), details.BadRequest)


@pytest.mark.parametrize("kind", [errors.ResourceExhaustedError, errors.UnavailableError])
def test_what_may_be_tried_again_says_when(
    kind: type[errors.ResourceExhaustedError] | type[errors.UnavailableError],
) -> None:
    [retry] = unpack(to_status(kind("later", retry_after_s=2.25)), details.RetryInfo)
    assert isinstance(retry, details.RetryInfo)
    assert (retry.retry_delay.seconds, retry.retry_delay.nanos) == (2, 250_000_000)


def test_what_is_in_vain_does_not() -> None:
    assert not unpack(to_status(errors.NotFoundError("no")), details.RetryInfo)


def test_the_request_id_is_carried() -> None:
    assert unpack(to_status(errors.InternalError("x"), "abc"), details.RequestInfo) == [
        details.RequestInfo(request_id="abc")
    ]
    assert not unpack(to_status(errors.InternalError("x")), details.RequestInfo)


@pytest.mark.parametrize("letter", ["x", "\u00e9", "\U0001f600"])
def test_a_long_message_is_cut_to_what_trailers_hold(letter: str) -> None:
    status = to_status(errors.InvalidArgumentError("voice", letter * 100_000))
    assert status.message.endswith(letter + "...")
    assert len(quote(status.message)) + len(b64encode(status.SerializeToString())) < 8192 - 500


def test_a_fault_of_ours_says_its_id_and_nothing_else() -> None:
    error, fault_id = internal_error("the call")
    assert fault_id in error.message
    assert len(fault_id) == 32
