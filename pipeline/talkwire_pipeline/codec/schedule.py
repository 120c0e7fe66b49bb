"""What is decoded next. Pure; times are seconds from now, sizes frames.

A generation's next chunk is chosen anew whenever rows, credit or an end came in, from what is known then: how long
its player has left to play, how fast rows come, what a decoder call costs, and how many others need the decoder.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from talkwire_pipeline.codec.windows import LADDER, Shape, Window, chunk_limit, chunk_sizes, inner_window, last_window
from talkwire_pipeline.geometry import CONTEXT_FRAMES, FRAME_RATE_HZ, Geometry

FRAME_S = 1 / FRAME_RATE_HZ
PATIENCE = 0.5
"""Share of what a player has left that a chunk may take to get ready, while a smaller one would be there sooner."""
SAFETY = 1.25
"""By how much predicted times are stretched."""
CONTEXT_WORK = 0.3
"""Work of a context frame, in decoded frames: the deeper a level, the less of it is computed. Measured."""


def work(shape: Shape) -> float:
    """What decoding a window costs, in decoded frames."""
    return shape.size + CONTEXT_WORK * (shape.left + shape.right)


@dataclass
class CallCost:
    """Seconds of a decoder call: a fixed part and one for each frame of work, both stretched by the present load.

    Attributes:
        call_s: the fixed part.
        frame_s: for a frame of work.
        load: how much slower than that calls have been of late.
    """

    call_s: float = 0.005
    frame_s: float = 0.0025
    load: float = 1.0

    def predict(self, frames_of_work: float, calls: int = 1) -> float:
        """Seconds that so much work will take in so many calls."""
        return self.load * (self.call_s * calls + self.frame_s * frames_of_work)

    def observe(self, frames_of_work: float, took_s: float) -> None:
        """A call took so long."""
        self.load += 0.2 * (took_s / (self.call_s + self.frame_s * frames_of_work) - self.load)

    def fit(self, small: tuple[float, float], large: tuple[float, float]) -> None:
        """Sets both parts from two calls on an idle machine, each (frames of work, seconds)."""
        (few, fast_s), (many, slow_s) = small, large
        self.frame_s = max((slow_s - fast_s) / (many - few), 1e-9)
        self.call_s = max(fast_s - self.frame_s * few, 1e-6)
        self.load = 1.0


class RowPace:
    """How fast a generation's rows come: all generations step together, so there is one pace."""

    _KEPT = 0.97

    def __init__(self) -> None:
        self._elapsed_s = 0.02
        self._rows = 1.0
        self._since_ns: int | None = None

    @property
    def row_s(self) -> float:
        """Seconds from one row to the next."""
        return self._elapsed_s / self._rows

    def observe(self, rows: int, now_ns: int) -> None:
        """So many rows of each generation came since the last call."""
        if self._since_ns is not None:
            kept = self._KEPT**rows
            self._elapsed_s = self._elapsed_s * kept + (now_ns - self._since_ns) / 1e9
            self._rows = self._rows * kept + rows
        self._since_ns = now_ns

    def pause(self) -> None:
        """No rows are due: the time until the next ones says nothing."""
        self._since_ns = None


class Cuts:
    """How a geometry may be cut when one call takes at most `max_batch_frames`.

    Attributes:
        geometry: the geometry.
        max_batch_frames: frames, context included, of one call.
        limit: frames of the largest chunk.
        sizes: what an adaptive ramp chooses from, ascending.
        ramp: sizes of the first chunks where they are given.
    """

    def __init__(self, geometry: Geometry, max_batch_frames: int) -> None:
        self.geometry = geometry
        self.max_batch_frames = max_batch_frames
        self.limit = chunk_limit(geometry, max_batch_frames)
        self.sizes = chunk_sizes(geometry, self.limit)
        self.ramp: tuple[int, ...] | None = None if isinstance(geometry.ramp, str) else geometry.ramp


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is known when a generation's next chunk is chosen.

    Attributes:
        start: frames that went out already.
        chunks: chunks that they made.
        frames: frames that are there.
        ended: no more will come.
        buffer_s: what the player has left to play; 0: nothing is playing.
        credit_frames: frames that may be decoded now.
        initial_credit_frames: the same before anything was decoded.
        untaken: whether the reader has yet to take some of what went out.
        row_s: seconds from one row to the next.
        cost: what a call costs.
        hungry: generations, this one included, whose players need the decoder soon.
    """

    start: int
    chunks: int
    frames: int
    ended: bool
    buffer_s: float
    credit_frames: int
    initial_credit_frames: int
    untaken: bool
    row_s: float
    cost: CallCost
    hungry: int = 1

    def rows_s(self, frames: int) -> float:
        """Seconds until so many frames are there."""
        return 0.0 if self.ended else SAFETY * self.row_s * max(frames - self.frames, 0)


def next_window(cuts: Cuts, outlook: Outlook) -> Window | None:
    """The window to decode now; None: wait for rows, for the end or for credit."""
    size, holdback = _listed(cuts, outlook) if cuts.ramp is not None else adaptive_size(cuts, outlook)
    if outlook.ended:
        size = _merge_rest(size, outlook.frames - outlook.start, cuts.limit)
    size = _within_credit(size, outlook)
    if size <= 0:
        return None
    if outlook.ended and outlook.start + size == outlook.frames:
        return last_window(cuts.geometry, outlook.start, size, cuts.limit)
    if not outlook.ended and outlook.start + size + holdback > outlook.frames:
        return None
    return inner_window(cuts.geometry, outlook.start, size, holdback)


def adaptive_size(cuts: Cuts, outlook: Outlook) -> tuple[int, int]:
    """Size and holdback of the next chunk with `ramp: adaptive`. It may have to wait for its rows.

    Only sizes that all who need the decoder can keep up with are considered. While the player has enough left, the
    largest one that takes no more than `PATIENCE` of it: large chunks cost less. Else, as for a first chunk, the
    smallest one after which another of its size will be there before the player runs dry.
    """
    geometry = cuts.geometry
    able = [size for size in cuts.sizes if round_s(cuts, outlook, size) <= size * FRAME_S] or [cuts.sizes[-1]]
    for size in reversed(able):
        ready_s = outlook.rows_s(outlook.start + size + geometry.holdback) + round_s(cuts, outlook, size)
        if ready_s <= PATIENCE * outlook.buffer_s:
            return size, geometry.holdback
    holdback = geometry.holdback if outlook.start else geometry.initial_holdback
    enough = (size for size in able if _keeps_up(cuts, outlook, size, holdback))
    return next(enough, able[-1]), holdback


def round_s(cuts: Cuts, outlook: Outlook, size: int) -> float:
    """Seconds until everybody who needs the decoder has had one chunk of this size, those alike in one call."""
    shape = Shape(CONTEXT_FRAMES, size, CONTEXT_FRAMES)
    calls = -(-outlook.hungry // batch_sizes(shape, cuts.max_batch_frames)[-1])
    return SAFETY * outlook.cost.predict(outlook.hungry * work(shape), calls)


def _keeps_up(cuts: Cuts, outlook: Outlook, size: int, holdback: int) -> bool:
    """Whether two chunks of this size play without a gap between them."""
    one_s, all_s = round_s(cuts, replace(outlook, hungry=1), size), round_s(cuts, outlook, size)
    first_s = outlook.rows_s(outlook.start + size + holdback) + one_s
    second_s = max(outlook.rows_s(outlook.start + 2 * size + cuts.geometry.holdback), first_s) + all_s
    return second_s <= max(outlook.buffer_s, first_s) + size * FRAME_S


def _listed(cuts: Cuts, outlook: Outlook) -> tuple[int, int]:
    """Size and holdback of the next chunk with a list as ramp."""
    assert cuts.ramp is not None
    geometry, index = cuts.geometry, outlook.chunks
    first = cuts.ramp or (geometry.initial,)
    size = first[index] if index < len(first) else geometry.steady
    return min(size, cuts.limit), geometry.holdback if index else geometry.initial_holdback


def _merge_rest(size: int, rest: int, limit: int) -> int:
    """The last frames join the chunk before them where that makes it at most half as long again."""
    return rest if rest <= min(size + size // 2, limit) else size


def _within_credit(size: int, outlook: Outlook) -> int:
    """The size cut to what may be decoded; 0: wait for credit.

    A reader that takes a little at a time would otherwise cause as many tiny chunks: as long as it has something
    left to take, credit will come, and half of what it once had is waited for.
    """
    credit = outlook.credit_frames
    if credit >= size:
        return size
    if outlook.untaken and credit < max(outlook.initial_credit_frames // 2, 1):
        return 0
    return max((step for step in LADDER if step <= credit), default=0)


def batch_sizes(shape: Shape, max_batch_frames: int) -> list[int]:
    """How many windows of a shape a call may take, ascending: powers of two, for each number is a shape of its own."""
    room = max(1, max_batch_frames // shape.total)
    return [1 << power for power in range(room.bit_length())]


def form_batch(windows: Sequence[tuple[int, Window]], max_batch_frames: int) -> list[tuple[int, Window]]:
    """The windows of one call out of those that could be decoded, most urgent first.

    The first one always goes; those of its shape join it as long as the call takes at most `max_batch_frames`.
    """
    if not windows:
        return []
    shape = windows[0][1].shape
    alike = [entry for entry in windows if entry[1].shape == shape]
    return alike[: max(size for size in batch_sizes(shape, max_batch_frames) if size <= len(alike))]


def count_hungry(buffers_s: Iterable[float], soon_s: float = 1.0) -> int:
    """How many of the players run dry soon."""
    return sum(buffer_s < soon_s for buffer_s in buffers_s)
