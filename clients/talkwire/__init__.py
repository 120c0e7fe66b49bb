"""Client of the talkwire speech service: text in as it is written, audio out as it is generated.

`speak` is the blocking one-liner; `SpeechClient` is the asyncio client with streams, aborts and many utterances.
"""

from talkwire.access import Tls
from talkwire.audio import Event, Speech
from talkwire.client import Health, SpeechClient
from talkwire.errors import (
    AlreadyExists,
    Cancelled,
    DeadlineExceeded,
    FailedPrecondition,
    FieldViolation,
    Internal,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
    TalkwireError,
    Unauthenticated,
    Unavailable,
    Unimplemented,
)
from talkwire.options import Options
from talkwire.stream import Stream
from talkwire.sync import speak
from talkwire.utterance import Utterance
from talkwire.v1.speech_pb2 import Aborted, Audio, Finished, Flushed, Geometry, Started, Statistics, TimedSpan, Timing

__all__ = [
    "Aborted",
    "AlreadyExists",
    "Audio",
    "Cancelled",
    "DeadlineExceeded",
    "Event",
    "FailedPrecondition",
    "FieldViolation",
    "Finished",
    "Flushed",
    "Geometry",
    "Health",
    "Internal",
    "InvalidArgument",
    "NotFound",
    "Options",
    "PermissionDenied",
    "ResourceExhausted",
    "Speech",
    "SpeechClient",
    "Started",
    "Statistics",
    "Stream",
    "TalkwireError",
    "TimedSpan",
    "Timing",
    "Tls",
    "Unauthenticated",
    "Unavailable",
    "Unimplemented",
    "Utterance",
    "speak",
]
