"""Which samples each decoder level needs for a few wanted frames. Pure arithmetic on index ranges.

A window is decoded as if it stood alone: zeros lie beyond its ends in every layer, as in a plain decode. Of that
plain decode only the wanted frames are kept, and walking back from them through the layers shows how little each
one has to compute. Ranges are half open and count positions of their own level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

KERNEL = 7
"""Taps of every convolution that is neither an upsampling nor a mix of channels."""
DILATIONS = (1, 3, 9)
"""Of the three residual units of a level."""


@dataclass(frozen=True, slots=True)
class Conv:
    """How a convolution gets from the positions that it is given to those that are needed behind it.

    Attributes:
        left: zeros to put before its input.
        right: zeros to put behind it.
        skip: index, in the input as given, of the first position that it puts out.
        size: positions that it puts out.
    """

    left: int
    right: int
    skip: int
    size: int


@dataclass(frozen=True, slots=True)
class Level:
    """One upsampling level: an unpadded transposed convolution's outputs `[first, first + size)`, then the units."""

    first: int
    size: int
    units: tuple[Conv, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """A window's way through the decoder.

    Attributes:
        start: the first frame that is needed at all.
        stop: the frame after the last one that is needed.
        head: the convolution over frames.
        levels: the upsampling levels.
        tail: the convolution over samples.
    """

    start: int
    stop: int
    head: Conv
    levels: tuple[Level, ...]
    tail: Conv


def _conv(start: int, stop: int, length: int, dilation: int = 1) -> tuple[Conv, int, int]:
    """The step that puts out `[start, stop)` of `length` positions, and the range that it needs."""
    reach = KERNEL // 2 * dilation
    first, last = max(start - reach, 0), min(stop + reach, length)
    return Conv(first - (start - reach), stop + reach - last, start - first, stop - start), first, last


def _level(start: int, stop: int, length: int, ratio: int) -> tuple[Level, int, int]:
    """The level that puts out `[start, stop)` of `length` positions, and the range of its input that it needs."""
    units = []
    for dilation in reversed(DILATIONS):
        unit, start, stop = _conv(start, stop, length, dilation)
        units.append(unit)
    # Input i reaches outputs [i * ratio, (i + 2) * ratio) of the unpadded form, whose first `cut` are thrown away.
    cut = (ratio + 1) // 2
    first, last = max((start + cut) // ratio - 1, 0), min((stop - 1 + cut) // ratio + 1, length // ratio)
    return Level(start + cut - first * ratio, stop - start, tuple(reversed(units))), first, last


@lru_cache(maxsize=1024)
def plan(ratios: Sequence[int], frames: int, start: int, stop: int) -> Plan:
    """How to decode frames `[start, stop)` of a window of `frames` frames.

    Args:
        ratios: upsampling of the levels, first level first; a tuple.
        frames: length of the window.
        start: the first wanted frame.
        stop: the frame after the last wanted one.

    Raises:
        ValueError: the wanted frames are none, or not in the window.
    """
    if not 0 <= start < stop <= frames:
        raise ValueError(f"frames [{start}, {stop}) are not in a window of {frames}")
    length = frames * prod(ratios)
    tail, first, last = _conv(start * prod(ratios), stop * prod(ratios), length)
    levels = []
    for ratio in reversed(ratios):
        level, first, last = _level(first, last, length, ratio)
        levels.append(level)
        length //= ratio
    head, first, last = _conv(first, last, length)
    return Plan(first, last, head, tuple(reversed(levels)), tail)
