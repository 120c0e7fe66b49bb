import grpc
import pytest
from google.protobuf import any_pb2, duration_pb2
from google.rpc import code_pb2, error_details_pb2, status_pb2

from talkwire import errors


def status(code: int, message: str = "", *details: object) -> status_pb2.Status:
    packed = [any_pb2.Any() for _ in details]
    for slot, detail in zip(packed, details, strict=True):
        slot.Pack(detail)
    return status_pb2.Status(code=code, message=message, details=packed)


class Rpc:
    def __init__(self, code: grpc.StatusCode, details: str | None, *trailing: tuple[str, bytes]) -> None:
        self._parts = (code, details, trailing)

    def code(self) -> grpc.StatusCode:
        return self._parts[0]

    def details(self) -> str | None:
        return self._parts[1]

    def trailing_metadata(self) -> object:
        return self._parts[2] or None


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (code_pb2.INVALID_ARGUMENT, errors.InvalidArgument),
        (code_pb2.NOT_FOUND, errors.NotFound),
        (code_pb2.ALREADY_EXISTS, errors.AlreadyExists),
        (code_pb2.FAILED_PRECONDITION, errors.FailedPrecondition),
        (code_pb2.RESOURCE_EXHAUSTED, errors.ResourceExhausted),
        (code_pb2.UNAVAILABLE, errors.Unavailable),
        (code_pb2.DEADLINE_EXCEEDED, errors.DeadlineExceeded),
        (code_pb2.CANCELLED, errors.Cancelled),
        (code_pb2.PERMISSION_DENIED, errors.PermissionDenied),
        (code_pb2.UNAUTHENTICATED, errors.Unauthenticated),
        (code_pb2.UNIMPLEMENTED, errors.Unimplemented),
        (code_pb2.INTERNAL, errors.Internal),
        (code_pb2.DATA_LOSS, errors.TalkwireError),
        (9999, errors.TalkwireError),
    ],
)
def test_each_status_has_its_class(code: int, expected: type[errors.TalkwireError]) -> None:
    assert type(errors.from_status(status(code))) is expected


def test_a_status_without_a_class_keeps_its_code() -> None:
    assert errors.from_status(status(code_pb2.DATA_LOSS)).code is grpc.StatusCode.DATA_LOSS
    assert errors.TalkwireError.code is grpc.StatusCode.UNKNOWN


def test_details_are_unpacked() -> None:
    bad = error_details_pb2.BadRequest()
    bad.field_violations.add(field="sampling.top_p", description="above 1")
    bad.field_violations.add(field="text", description="empty")
    error = errors.from_status(
        status(
            code_pb2.INVALID_ARGUMENT,
            "two things",
            error_details_pb2.ErrorInfo(reason="WHY"),
            bad,
            error_details_pb2.RetryInfo(retry_delay=duration_pb2.Duration(seconds=2, nanos=250_000_000)),
            error_details_pb2.DebugInfo(detail="not for us"),
        )
    )
    assert (str(error), error.reason, error.retry_after_s) == ("two things", "WHY", 2.25)
    assert [violation.field for violation in error.violations] == ["sampling.top_p", "text"]


def test_a_bare_status_has_no_details() -> None:
    error = errors.from_rpc(Rpc(grpc.StatusCode.UNAVAILABLE, None))
    assert type(error) is errors.Unavailable
    assert (str(error), error.reason, error.violations, error.retry_after_s) == ("UNAVAILABLE", "", (), None)


def test_a_reset_stream_is_a_server_that_is_gone() -> None:
    text = "Stream removed (RST_STREAM (Received RST_STREAM with error code 2))"
    error = errors.from_rpc(Rpc(grpc.StatusCode.INTERNAL, text))
    assert (type(error), error.code, error.message) == (errors.Unavailable, grpc.StatusCode.UNAVAILABLE, text)
    assert type(errors.from_rpc(Rpc(grpc.StatusCode.INTERNAL, "fault 7"))) is errors.Internal


def test_trailing_details_outrank_the_bare_status() -> None:
    rich = status(code_pb2.NOT_FOUND, "no such voice", error_details_pb2.ErrorInfo(reason="VOICE_UNKNOWN"))
    trailing = (("other", b""), ("grpc-status-details-bin", rich.SerializeToString()))
    error = errors.from_rpc(Rpc(grpc.StatusCode.NOT_FOUND, "plain", *trailing))
    assert (type(error), error.message, error.reason) == (errors.NotFound, "no such voice", "VOICE_UNKNOWN")
