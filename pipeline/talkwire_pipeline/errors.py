"""The one error tree of the pipeline and the server.

Every error that a caller can meet is a `TalkwireError` with a stable `reason` (the `ErrorInfo.reason` of
google.rpc, upper snake case). Which gRPC status belongs to which class is one table in the server.
"""

from __future__ import annotations


class TalkwireError(Exception):
    """Base of the tree. `message` is fit to be shown to the caller."""

    reason = "INTERNAL"

    def __init__(self, message: str, *, reason: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        if reason is not None:
            self.reason = reason


class InvalidArgumentError(TalkwireError):
    """Something the caller sent is wrong; `field` names it as the contract does (`sampling.top_p`)."""

    reason = "INVALID_ARGUMENT"

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.field = field
        self.description = message


class NotFoundError(TalkwireError):
    """A thing that the caller named is not there."""

    reason = "NOT_FOUND"


class AlreadyExistsError(TalkwireError):
    """An id that is in use was given again."""

    reason = "ALREADY_EXISTS"


class FailedPreconditionError(TalkwireError):
    """The call is right but not in this state."""

    reason = "FAILED_PRECONDITION"


class UnauthenticatedError(TalkwireError):
    """The caller showed no token, or one that is of no use."""

    reason = "UNAUTHENTICATED"


class PermissionDeniedError(TalkwireError):
    """The caller is known and may not do this."""

    reason = "PERMISSION_DENIED"


class ResourceExhaustedError(TalkwireError):
    """Full for now; `retry_after_s` says when it is worth trying again."""

    reason = "QUEUE_FULL"

    def __init__(self, message: str, *, reason: str | None = None, retry_after_s: float = 1.0) -> None:
        super().__init__(message, reason=reason)
        self.retry_after_s = retry_after_s


class UnavailableError(TalkwireError):
    """A stage is down, warming up or draining; `retry_after_s` says when it is worth trying again."""

    reason = "STAGE_DOWN"

    def __init__(self, message: str, *, reason: str | None = None, retry_after_s: float = 2.0) -> None:
        super().__init__(message, reason=reason)
        self.retry_after_s = retry_after_s


class TimedOutError(TalkwireError):
    """A deadline passed."""

    reason = "DEADLINE_EXCEEDED"


class InternalError(TalkwireError):
    """A fault of ours; the message carries an id that is in the log."""

    reason = "INTERNAL"


class DeployError(TalkwireError):
    """A deploy file, profile, environment variable or `--set` that cannot be used."""

    reason = "DEPLOY"


class CheckpointError(TalkwireError):
    """A checkpoint that cannot be loaded: missing, unknown or reshaped keys, wrong files."""

    reason = "CHECKPOINT"
