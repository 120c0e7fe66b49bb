"""Requests as the contract has them, checked and turned into what the pipeline takes. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
from google.protobuf.message import Message

from talkwire.v1 import speech_pb2 as pb
from talkwire_pipeline import geometry as shapes
from talkwire_pipeline import sampling as draws
from talkwire_pipeline.errors import InvalidArgumentError
from talkwire_pipeline.geometry import PRESETS, Geometry
from talkwire_pipeline.request import UtteranceRequest
from talkwire_pipeline.sampling import Runner, SamplingChoice
from talkwire_server.audio import SAMPLE_RATES_HZ, Encoding, Format

MAX_ID_CHARS = 128
"""Characters of an `utterance_id`."""
MAX_RAMP_SIZES = 64
"""Sizes that a request's ramp may list."""

ENCODINGS: dict[pb.AudioEncoding.ValueType, Encoding] = {
    pb.AUDIO_ENCODING_UNSPECIFIED: "pcm_s16le",
    pb.AUDIO_ENCODING_PCM_S16LE: "pcm_s16le",
    pb.AUDIO_ENCODING_WAV: "wav",
}
PRESET_NAMES: dict[pb.GeometryPreset.ValueType, shapes.Preset] = {
    pb.GEOMETRY_PRESET_EXACT: "exact",
    pb.GEOMETRY_PRESET_EXACT_FAST: "exact-fast",
    pb.GEOMETRY_PRESET_V1: "v1",
    pb.GEOMETRY_PRESET_V2: "v2",
    pb.GEOMETRY_PRESET_CUSTOM: "custom",
}
GEOMETRY_FIELDS = {
    "initial_codec_chunk_frames": "initial",
    "codec_chunk_frames": "steady",
    "codec_left_context_frames": "left",
    "codec_right_holdback_frames": "holdback",
    "initial_codec_right_holdback_frames": "initial_holdback",
}
"""The contract's name of each number of a geometry, and ours."""
_SEAM_FIELDS = tuple(GEOMETRY_FIELDS)[2:]
_CONTINUITY: dict[int, Literal["anchor", "rolling", "off"] | None] = {
    pb.CONTINUITY_UNSPECIFIED: None,
    pb.CONTINUITY_ANCHOR: "anchor",
    pb.CONTINUITY_ROLLING: "rolling",
    pb.CONTINUITY_OFF: "off",
}
_PRIORITIES = {pb.PRIORITY_UNSPECIFIED: 0, pb.PRIORITY_INTERACTIVE: 0, pb.PRIORITY_BATCH: 1}
_LANGUAGE = re.compile(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*")


@dataclass(frozen=True, slots=True)
class Opening:
    """A `Start` that holds together: what the pipeline gets, and the form of the audio."""

    request: UtteranceRequest
    form: Format


def opening(start: pb.Start, default: Geometry, runner: Runner = "embedded") -> Opening:
    """The checked `start`; `default` is the deployment's geometry, `runner` what steps its talker.

    Raises `InvalidArgumentError` that names the field (`start.sampling.top_p`), the value and what it may be.
    """
    _known("start.priority", start.priority, pb.Priority)
    _known("start.text_options.continuity", start.text_options.continuity, pb.Continuity)
    if start.language and not _LANGUAGE.fullmatch(start.language):
        raise InvalidArgumentError("start.language", f"{start.language[:40]!r} is no BCP 47 tag, such as en or en-US")
    request = UtteranceRequest(
        sampling=to_sampling(start.sampling, runner=runner),
        geometry=to_geometry(start.geometry, default),
        language=start.language,
        voice=start.voice,
        continuity=_CONTINUITY[start.text_options.continuity],
        priority=_PRIORITIES[start.priority],
        timeout_s=_limit(start, "timeout_s"),
        first_audio_timeout_s=_limit(start, "first_audio_timeout_s"),
    )
    return Opening(request, to_format(start.audio_format))


def check_id(utterance_id: str) -> None:
    """Raises `InvalidArgumentError` unless the id is there and not too long."""
    if not utterance_id:
        raise InvalidArgumentError("utterance_id", "is missing: every event but keepalive names its utterance")
    if len(utterance_id) > MAX_ID_CHARS:
        raise InvalidArgumentError("utterance_id", f"has {len(utterance_id)} characters, at most {MAX_ID_CHARS} may be")


def check_text(text: str, field: str) -> None:
    """Raises `InvalidArgumentError` for text that no writer means: with a NUL character."""
    place = text.find("\0")
    if place >= 0:
        raise InvalidArgumentError(field, f"has a NUL character (U+0000) at {place}: leave it out")


def played_samples(message: pb.Abort | pb.AbortRequest, field: str) -> int | None:
    """How much the caller says it has played, in samples; None: not said. Raises `InvalidArgumentError` below 0."""
    if not message.HasField("played_samples"):
        return None
    if message.played_samples < 0:
        raise InvalidArgumentError(field, f"{message.played_samples} is below 0")
    return message.played_samples


def to_format(message: pb.AudioFormat, field: str = "start.audio_format") -> Format:
    """The audio format; unset parts are PCM at 24 kHz."""
    _known(f"{field}.encoding", message.encoding, pb.AudioEncoding)
    rate = message.sample_rate_hz or SAMPLE_RATES_HZ[0]
    if rate not in SAMPLE_RATES_HZ:
        may_be = ", ".join(map(str, SAMPLE_RATES_HZ))
        raise InvalidArgumentError(f"{field}.sample_rate_hz", f"{rate} is not served: it may be {may_be}, or 0")
    return Format(ENCODINGS[message.encoding], rate)


def to_sampling(message: pb.Sampling, field: str = "start.sampling", runner: Runner = "embedded") -> SamplingChoice:
    """The values that are set, each in its range and taken by the runner."""
    return draws.check(SamplingChoice(**_set_fields(message, SamplingChoice.__struct_fields__)), field, runner)


def to_geometry(message: pb.Geometry, default: Geometry, field: str = "start.geometry") -> Geometry | None:
    """The geometry asked for; None: the deployment's.

    The numbers at the seams belong to their preset; only `custom` takes others.
    """
    _known(f"{field}.preset", message.preset, pb.GeometryPreset)
    given = _set_fields(message, GEOMETRY_FIELDS)
    if not message.preset and not given and not message.ramp_frames:
        return None
    preset = PRESET_NAMES.get(message.preset, default.preset)
    for name in _SEAM_FIELDS:
        if name in given and preset != "custom":
            raise InvalidArgumentError(
                f"{field}.{name}", f"{given[name]}: preset {preset} fixes it; only CUSTOM takes it"
            )
    base = PRESETS.get(preset, PRESETS["exact"]) if message.preset else default
    changed = {GEOMETRY_FIELDS[name]: value for name, value in given.items()} | _ramp(message, field)
    if "holdback" in changed:
        changed.setdefault("initial_holdback", min(base.initial_holdback, changed["holdback"]))
    return _checked(msgspec.structs.replace(base, preset=preset, **changed), field)


def _ramp(message: pb.Geometry, field: str) -> dict[str, tuple[int, ...]]:
    if len(message.ramp_frames) > MAX_RAMP_SIZES:
        raise InvalidArgumentError(
            f"{field}.ramp_frames", f"has {len(message.ramp_frames)} sizes, at most {MAX_RAMP_SIZES}"
        )
    return {"ramp": tuple(message.ramp_frames)} if message.ramp_frames else {}


def _checked(geometry: Geometry, field: str) -> Geometry:
    """The geometry itself; errors name the contract's fields, not ours."""
    try:
        return shapes.check(geometry, field)
    except InvalidArgumentError as error:
        ours = error.field.rpartition(".")[2]
        theirs = {name: key for key, name in GEOMETRY_FIELDS.items()} | {"ramp": "ramp_frames"}
        raise InvalidArgumentError(f"{field}.{theirs.get(ours, ours)}", error.description) from None


def _set_fields(message: Message, names: Iterable[str]) -> dict[str, Any]:
    """The values of those optional fields that are set."""
    return {name: getattr(message, name) for name in names if message.HasField(name)}


def _known(field: str, value: int, enum: Any) -> None:
    """Raises `InvalidArgumentError` where `value` is none of the generated enum's."""
    if value not in enum.values():
        names = ", ".join(enum.keys())
        raise InvalidArgumentError(field, f"{value} is no value of {enum.DESCRIPTOR.name}: {names}")


def _limit(start: pb.Start, name: Literal["timeout_s", "first_audio_timeout_s"]) -> float | None:
    if not start.HasField(name):
        return None
    value: float = getattr(start, name)
    if not (math.isfinite(value) and value > 0):
        raise InvalidArgumentError(f"start.{name}", f"{value} is not above 0 and finite; leave it out for no limit")
    return value
