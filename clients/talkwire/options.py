"""How an utterance is to be spoken: keyword arguments that `start`, `synthesize` and `speak` share. Pure."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

from talkwire.errors import FieldViolation, InvalidArgument
from talkwire.v1 import speech_pb2 as pb


class Options(TypedDict, total=False):
    """Settings of one utterance. What is left out takes the deployment's value; limits are the server's to check."""

    voice: str
    """Name of a voice."""
    language: str
    """BCP 47 tag of the text, such as "en-US"."""
    sample_rate_hz: int
    """Samples a second of the audio; 24,000 is the model's own."""
    encoding: Literal["pcm_s16le", "wav"]
    """How samples are written."""
    temperature: float
    """0 is greedy."""
    top_p: float
    """Share of the probability that is drawn from."""
    top_k: int
    """Number of codes that are drawn from; 0 is off."""
    seed: int
    """Same text, voice, settings and seed: same audio."""
    repetition_penalty: float
    """1 is off."""
    geometry: Literal["exact", "exact-fast", "v1", "v2"] | pb.Geometry
    """How audio is cut into chunks: a preset's name, or a message for a shape of one's own."""
    timeout_s: float
    """Limit from the start to the end event."""
    first_audio_timeout_s: float
    """Limit from the first speakable text to the first audio."""
    priority: Literal["interactive", "batch"]
    """Who waits for whom when slots are scarce."""
    continuity: Literal["anchor", "rolling", "off"]
    """Where segments take their voice from when none is named."""


_SAMPLING = ("temperature", "top_p", "top_k", "seed", "repetition_penalty")
_PLAIN = ("voice", "language", "timeout_s", "first_audio_timeout_s")
_ENUMS: dict[str, Any] = {
    "encoding": pb.AudioEncoding,
    "geometry": pb.GeometryPreset,
    "priority": pb.Priority,
    "continuity": pb.Continuity,
}


def build_start(options: Options) -> pb.Start:
    """The `Start` message for these settings.

    Raises `InvalidArgument` for a name that is unknown or a value that the field's type cannot hold.
    """
    given: dict[str, Any] = {key: value for key, value in options.items() if value is not None}
    start = pb.Start()
    for key, value in given.items():
        try:
            _set(start, key, value)
        except (TypeError, ValueError) as error:
            raise _invalid(key, f"{value!r} does not fit: {error}") from None
    return start


def _set(start: pb.Start, key: str, value: Any) -> None:
    if key in _PLAIN:
        setattr(start, key, value)
    elif key in _SAMPLING:
        setattr(start.sampling, key, value)
    elif key == "sample_rate_hz":
        start.audio_format.sample_rate_hz = value
    elif key == "encoding":
        start.audio_format.encoding = _named(key, value)
    elif key == "geometry":
        shape = value if isinstance(value, pb.Geometry) else pb.Geometry(preset=_named(key, value))
        start.geometry.CopyFrom(shape)
    elif key == "priority":
        start.priority = _named(key, value)
    elif key == "continuity":
        start.text_options.continuity = _named(key, value)
    else:
        raise _invalid(key, f"no such setting; there are {', '.join(sorted(Options.__annotations__))}")


def _named(key: str, value: object) -> Any:
    """The enum value that a short name such as "exact-fast" stands for."""
    prefix = _ENUMS[key].DESCRIPTOR.values_by_number[0].name.removesuffix("UNSPECIFIED")
    names = {name.removeprefix(prefix).lower().replace("_", "-"): number for name, number in _ENUMS[key].items()}
    number = names.get(str(value).lower().replace("_", "-"))
    if not number:
        known = ", ".join(name for name, number in names.items() if number)
        raise _invalid(key, f"{value!r} is not known; there are {known}")
    return number


def _invalid(key: str, fault: str) -> InvalidArgument:
    return InvalidArgument(f"{key}: {fault}", violations=(FieldViolation(key, fault),))
