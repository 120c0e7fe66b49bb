"""Chunk geometry: how a generation's frames are cut into decoded chunks. Pure; all numbers are frames."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

from talkwire_pipeline.errors import InvalidArgumentError

SAMPLE_RATE_HZ = 24_000
"""Samples a second that the codec makes."""
FRAME_RATE_HZ = 25
"""Frames a second."""
SAMPLES_PER_FRAME = 960
"""Samples that one frame becomes."""
CODEBOOKS = 8
"""Codes a row, and codes a frame."""
CONTEXT_FRAMES = 10
"""Frames that the DAC decoder sees on each side of a sample; measured, see docs/design.md."""
MAX_CHUNK_FRAMES = 500
"""Frames of the longest chunk that may be asked for: 20 s."""

Preset = Literal["exact", "exact-fast", "v1", "v2", "custom"]
Ramp = Literal["adaptive"] | tuple[int, ...]


class Geometry(msgspec.Struct, frozen=True, kw_only=True):
    """The shape of a generation's chunks.

    A chunk of n frames is decoded from up to `left` frames before it and `holdback` frames after it, so it
    can go out only when `holdback` more frames are there (or the generation has ended).

    Attributes:
        preset: the name under which the shape was asked for.
        initial: frames of the first chunk (the smallest; it may grow under load with an adaptive ramp).
        steady: frames of a chunk once the ramp is over.
        left: left context.
        holdback: right holdback.
        initial_holdback: right holdback of the first chunk alone.
        ramp: `adaptive`, or the sizes of the first chunks.
    """

    preset: Preset = "exact"
    initial: int = 4
    steady: int = 25
    left: int = CONTEXT_FRAMES
    holdback: int = CONTEXT_FRAMES
    initial_holdback: int = CONTEXT_FRAMES
    ramp: Ramp = "adaptive"

    @property
    def seam_exact(self) -> bool:
        """Whether every chunk but the first equals the whole decode, sample for sample."""
        return self.left >= CONTEXT_FRAMES and self.holdback >= CONTEXT_FRAMES

    @property
    def seam_error(self) -> str:
        """How far samples near chunk borders are from the whole decode, as measured (docs/design.md, section 4).

        Empty where they are the same, but for a first chunk that sees 4 frames or more ahead.
        """
        seen = min(self.left, self.holdback, CONTEXT_FRAMES)
        seen = min(seen, self.initial_holdback) if self.initial_holdback < 4 else seen
        if seen >= CONTEXT_FRAMES:
            return ""
        ratio_db = (
            "about 83 dB" if seen >= 8 else "about 38 dB" if seen >= 4 else "3 to 4 dB where nothing is held back"
        )
        return f"signal to difference near chunk borders is {ratio_db}"


PRESETS: dict[str, Geometry] = {
    "exact": Geometry(),
    "exact-fast": Geometry(preset="exact-fast", initial_holdback=4),
    "v1": Geometry(preset="v1", initial=1, left=25, holdback=4, initial_holdback=4),
    "v2": Geometry(preset="v2", initial=8, left=8, holdback=0, initial_holdback=0),
}
"""The named shapes."""

_LIMITS = {
    "initial": (1, MAX_CHUNK_FRAMES),
    "steady": (1, MAX_CHUNK_FRAMES),
    "left": (0, 100),
    "holdback": (0, 100),
    "initial_holdback": (0, 100),
}


def check(geometry: Geometry, field: str = "geometry") -> Geometry:
    """The geometry itself, or an `InvalidArgumentError` that names the number that is out of range."""
    if geometry.preset not in get_args(Preset):
        raise InvalidArgumentError(f"{field}.preset", f"{geometry.preset!r} is none of {', '.join(get_args(Preset))}")
    for name, (low, high) in _LIMITS.items():
        value = getattr(geometry, name)
        if not low <= value <= high:
            raise InvalidArgumentError(f"{field}.{name}", f"{value} is not in {low} to {high} frames")
    if geometry.initial_holdback > geometry.holdback:
        raise InvalidArgumentError(
            f"{field}.initial_holdback", f"{geometry.initial_holdback} is above holdback {geometry.holdback}"
        )
    ramp = geometry.ramp
    if not isinstance(ramp, str) and not all(1 <= size <= MAX_CHUNK_FRAMES for size in ramp):
        raise InvalidArgumentError(f"{field}.ramp", f"{list(ramp)} has a size not in 1 to {MAX_CHUNK_FRAMES} frames")
    return geometry
