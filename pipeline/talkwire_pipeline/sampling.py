"""Sampling values of a generation: which count, and what they may be. Pure."""

from __future__ import annotations

import math

import msgspec

from talkwire_pipeline.errors import InvalidArgumentError

MAX_SEED = 2**63 - 1
"""The largest seed: seeds fit a signed 64-bit field."""


class Sampling(msgspec.Struct, frozen=True, kw_only=True):
    """Values that are all set: what a generation is drawn with.

    Attributes:
        temperature: 0 is greedy.
        top_p: the smallest set of codes whose probability reaches it is kept; 1 is off.
        top_k: so many best codes are kept; 0 is off.
        repetition_penalty: above 1 makes codes that the codebook has already drawn less likely; 1 is off.
        seed: same seed, same draw.
    """

    temperature: float = 1.0
    top_p: float = 0.95
    top_k: int = 50
    repetition_penalty: float = 1.0
    seed: int = 0


class SamplingChoice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Values of which any may be unset: a request's, a deploy file's, or a checkpoint's."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    repetition_penalty: float | None = None
    seed: int | None = None


_RANGES: dict[str, tuple[float, float, bool]] = {  # lowest, highest, whether the lowest itself is allowed
    "temperature": (0.0, 2.0, True),
    "top_p": (0.0, 1.0, False),
    "top_k": (0, 1026, True),
    "repetition_penalty": (0.0, 2.0, False),
    "seed": (0, MAX_SEED, True),
}


def check(choice: SamplingChoice, field: str = "sampling") -> SamplingChoice:
    """The choice itself, or an `InvalidArgumentError` that names the first value that is out of range."""
    for name, (low, high, closed) in _RANGES.items():
        value = getattr(choice, name)
        if value is None:
            continue
        inside = math.isfinite(value) and (low <= value if closed else low < value) and value <= high
        if not inside:
            bounds = f"{'at least' if closed else 'above'} {low:g} and at most {high:g}"
            raise InvalidArgumentError(f"{field}.{name}", f"{value} is out of range: it must be {bounds}")
    return choice


def resolve(*choices: SamplingChoice, seed: int) -> Sampling:
    """The first value that is set, in the order given, else the neutral default; `seed` if none has one."""
    values: dict[str, float] = {}
    for choice in choices:
        for name in _RANGES:
            value = getattr(choice, name)
            if value is not None:
                values.setdefault(name, value)
    values.setdefault("seed", seed)
    return msgspec.convert(values, Sampling, strict=False)
