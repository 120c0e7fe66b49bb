"""Windows: a chunk of frames with the context that it is decoded from. Pure; all numbers are frames.

Every new length costs a CPU 50 ms (its kernels are generated) and a GPU a graph, so sizes come from one short
ladder wherever the geometry leaves a choice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from talkwire_pipeline.geometry import CONTEXT_FRAMES, Geometry

LADDER = (1, 2, 4, 6, 9, 13, 18, 25, 36, 50, 72, 100, 144, 200, 288, 400, 500)
"""Sizes that chunks take where they are free to: each about 1.4 times the one before."""


class Shape(NamedTuple):
    """What two windows must share to be decoded in one call: frames of left context, decoded frames, right context."""

    left: int
    size: int
    right: int

    @property
    def total(self) -> int:
        """Frames that go into the decoder."""
        return self.left + self.size + self.right


@dataclass(frozen=True, slots=True)
class Window:
    """A chunk and how it is decoded.

    Attributes:
        start: the chunk's first frame in its generation.
        frames: how many frames it has.
        shape: what is decoded; its `size` may be above `frames`: the rest is cut off.
    """

    start: int
    frames: int
    shape: Shape

    @property
    def stop(self) -> int:
        """The frame after the chunk's last one."""
        return self.start + self.frames


def chunk_limit(geometry: Geometry, max_batch_frames: int) -> int:
    """Frames of the largest chunk that one call may take with its context; at least 1."""
    return max(1, max_batch_frames - min(geometry.left, CONTEXT_FRAMES) - CONTEXT_FRAMES)


def chunk_sizes(geometry: Geometry, limit: int) -> tuple[int, ...]:
    """The sizes that an adaptive ramp chooses from: `initial`, ladder, `steady`, none above `limit`. Ascending."""
    first, last = min(geometry.initial, limit), min(max(geometry.initial, geometry.steady), limit)
    return tuple(sorted({first, last, *(size for size in LADDER if first < size < last)}))


def inner_window(geometry: Geometry, start: int, frames: int, holdback: int) -> Window:
    """The window of a chunk that more frames follow.

    Context that the decoder does not see is left out: the samples are the same.
    """
    left = min(start, geometry.left, CONTEXT_FRAMES)
    return Window(start, frames, Shape(left, frames, min(holdback, CONTEXT_FRAMES)))


def last_window(geometry: Geometry, start: int, frames: int, limit: int) -> Window:
    """The window of a generation's last chunk.

    Repeats of the last frame lie behind it: the tail pad, and as many as make its size one of the ladder.
    """
    size = min((size for size in LADDER if size >= frames), default=frames)
    left = min(start, geometry.left, CONTEXT_FRAMES)
    return Window(start, frames, Shape(left, max(frames, min(size, limit)), CONTEXT_FRAMES))


def likely_shapes(geometry: Geometry, limit: int) -> list[Shape]:
    """The shapes that most generations of this geometry meet, for a warm-up: first, second, later, last chunks."""
    sizes = chunk_sizes(geometry, limit)
    first = [inner_window(geometry, 0, size, geometry.initial_holdback) for size in sizes[:2]]
    starts = (sizes[0], CONTEXT_FRAMES)
    later = [inner_window(geometry, start, size, geometry.holdback) for start in starts for size in sizes]
    last = [last_window(geometry, CONTEXT_FRAMES, size, limit) for size in (*sizes, limit)]
    return list(dict.fromkeys(window.shape for window in (*first, *later, *last)))
