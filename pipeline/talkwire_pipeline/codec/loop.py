"""The codec's work: commands and rows in, one bounded decoder call at a time, audio out."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic_ns
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from talkwire_pipeline.codec.generations import Generation
from talkwire_pipeline.codec.schedule import (
    CallCost,
    RowPace,
    batch_sizes,
    count_hungry,
    form_batch,
    next_window,
    work,
)
from talkwire_pipeline.codec.windows import Shape, Window, chunk_limit, likely_shapes
from talkwire_pipeline.geometry import CODEBOOKS, SAMPLES_PER_FRAME, Geometry
from talkwire_pipeline.histogram import COUNTS, FRAMES, SECONDS, Histogram
from talkwire_pipeline.messages import (
    Abort,
    Audio,
    Begin,
    CodecDone,
    Codes,
    Credit,
    End,
    Failed,
    Message,
    Peer,
    Released,
    Rows,
    Stop,
)


class Decoder(Protocol):
    """What the loop needs of `talkwire_pipeline.codec.decoder.CodecDecoder`."""

    def decode(self, windows: Codes, start: int, stop: int) -> npt.NDArray[np.float32]:
        """[B, T, 8] codes to the samples [B, (stop - start) * 960] of frames `[start, stop)`."""

    def capture(self, batch: int, frames: int, start: int, stop: int) -> None:
        """Prepares such calls with windows [batch, frames, 8]."""


class CodecLoop:
    """Holds generations, decides what is decoded next, decodes it.

    The owner calls `handle` for every message that came, then `step` until it says that there is nothing to do;
    between two steps it handles what came meanwhile. It stops calling `step` while `to_server` has no room.

    Args:
        decoder: the model.
        to_server: takes what is to be sent; must not fail. Arrays are not written to again.
        now_ns: the clock.
        max_batch_frames: frames, context included, of one decoder call; one window is always decoded.
        max_generations: a `Begin` beyond so many is answered by `Failed`.

    Attributes:
        stopped: `Stop` came.
    """

    def __init__(
        self,
        decoder: Decoder,
        to_server: Callable[[Message], None],
        now_ns: Callable[[], int] = monotonic_ns,
        max_batch_frames: int = 48,
        max_generations: int = 64,
    ) -> None:
        self.stopped = False
        self._decoder = decoder
        self._to_server = to_server
        self._now_ns = now_ns
        self._max_batch_frames = max_batch_frames
        self._max_generations = max_generations
        self._generations: dict[int, Generation] = {}
        self._early_aborts: set[int] = set()
        self._newest = 0
        self._cost = CallCost()
        self._met: set[tuple[int, Shape]] = set()
        self._pace = RowPace()
        self._fresh_rows = 0
        self._totals = {"frames_total": 0.0, "calls_total": 0.0, "windows_total": 0.0, "faults_total": 0.0}
        self._call_s = Histogram("call_seconds", SECONDS)
        self._call_windows = Histogram("call_windows", COUNTS)
        self._window_frames = Histogram("window_frames", FRAMES)
        self._batch_windows = 0
        self._handlers: dict[type[Message], Callable[[Any], None]] = {
            Begin: self._begin,
            Rows: self._rows,
            End: self._end,
            Credit: self._credit,
            Abort: self._abort,
            Peer: self._peer,
            Stop: self._stop,
        }

    # ---- messages

    def handle(self, message: Message) -> None:
        """Takes one message. Raises `TypeError` for one that is none of the codec's."""
        handler = self._handlers.get(type(message))
        if handler is None:
            raise TypeError(f"the codec takes no {type(message).__name__}")
        handler(message)

    def _begin(self, begin: Begin) -> None:
        self._newest = max(self._newest, begin.generation)
        aborted = begin.generation in self._early_aborts
        # Begins come in order, so whatever is older and not here will never come.
        self._early_aborts = {generation for generation in self._early_aborts if generation > self._newest}
        if aborted:
            return
        if len(self._generations) >= self._max_generations:
            self._to_server(Failed(generation=begin.generation, detail=f"all {self._max_generations} slots are taken"))
            return
        self._generations[begin.generation] = Generation(begin, self._max_batch_frames)

    def _rows(self, rows: Rows) -> None:
        ids = rows.generations.tolist()
        for generation, row in zip(ids, rows.codes, strict=True):
            held = self._generations.get(generation)
            if held is None or held.reason is not None:
                continue
            try:
                held.add_row(row)
            except ValueError as error:
                self._fail(generation, error)
        # A message carries one step; should it carry more, this many rows of each generation.
        self._fresh_rows += -(-len(ids) // max(len(set(ids)), 1))

    def _end(self, end: End) -> None:
        held = self._generations.get(end.generation)
        if held is None:
            return
        if end.reason == "abort":
            del self._generations[end.generation]
            return
        held.reason = end.reason
        self._finish_if_complete(end.generation, held)

    def _credit(self, credit: Credit) -> None:
        held = self._generations.get(credit.generation)
        if held is not None:
            held.add_credit(credit.samples)

    def _abort(self, abort: Abort) -> None:
        held = self._generations.pop(abort.generation, None)
        if held is None and abort.generation > self._newest:
            self._early_aborts.add(abort.generation)
        self._to_server(Released(generation=abort.generation, samples=held.sent_samples if held else 0))

    def _peer(self, peer: Peer) -> None:
        if peer.stage == "talker" and not peer.up:
            self._generations.clear()

    def _stop(self, _: Stop) -> None:
        self.stopped = True

    # ---- decoding

    def step(self) -> bool:
        """Decodes and sends what is most urgent, in one call; False: there is nothing to do now."""
        now_ns = self._now_ns()
        self._observe_rows(now_ns)
        batch = form_batch(self._ready(now_ns), self._max_batch_frames)
        if not batch:
            return False
        try:
            samples = self._decode(batch, now_ns)
        except Exception as error:
            # Whatever the model or the device throws, those who were not in this call must not notice.
            for generation, _ in batch:
                self._fail(generation, error)
            return True
        for (generation, window), row in zip(batch, samples, strict=True):
            self._send(generation, window, row)
        return True

    def _observe_rows(self, now_ns: int) -> None:
        if self._fresh_rows:
            self._pace.observe(self._fresh_rows, now_ns)
            self._fresh_rows = 0
        if all(held.reason is not None for held in self._generations.values()):
            self._pace.pause()

    def _ready(self, now_ns: int) -> list[tuple[int, Window]]:
        """The windows that can be decoded now, in the order in which players run dry; first chunks first."""
        hungry = max(count_hungry(held.buffer_s(now_ns) for held in self._generations.values()), 1)
        ready = []
        for generation, held in self._generations.items():
            window = next_window(held.cuts, held.outlook(now_ns, self._pace.row_s, self._cost, hungry))
            if window is not None:
                ready.append((held.dry_at_ns(now_ns), generation, window))
        ready.sort(key=lambda entry: entry[:2])
        return [(generation, window) for _, generation, window in ready]

    def _decode(self, batch: list[tuple[int, Window]], now_ns: int) -> npt.NDArray[np.float32]:
        """The batch's samples [B, size * 960]."""
        shape = batch[0][1].shape
        codes = np.stack([self._generations[generation].codes(window) for generation, window in batch])
        samples = self._decoder.decode(codes, shape.left, shape.left + shape.size)
        took_s = (self._now_ns() - now_ns) / 1e9
        self._learn(len(batch), shape, took_s)
        self._batch_windows = len(batch)
        self._call_s.observe(took_s)
        self._call_windows.observe(len(batch))
        self._window_frames.observe(shape.total)
        self._totals["frames_total"] += sum(window.frames for _, window in batch)
        self._totals["calls_total"] += 1
        self._totals["windows_total"] += len(batch)
        return samples

    def _learn(self, windows: int, shape: Shape, took_s: float) -> None:
        """Counts the call for the present load, unless it is the first of its shape, which makes its kernels."""
        if (windows, shape) in self._met:
            self._cost.observe(windows * work(shape), took_s)
        self._met.add((windows, shape))

    def _send(self, generation: int, window: Window, samples: npt.NDArray[np.float32]) -> None:
        held = self._generations[generation]
        kept = samples[: window.frames * SAMPLES_PER_FRAME]
        self._to_server(Audio(generation=generation, first_sample=held.sent_samples, samples=kept))
        held.sent(window, self._now_ns())
        self._finish_if_complete(generation, held)

    def _finish_if_complete(self, generation: int, held: Generation) -> None:
        if held.complete and held.reason is not None:
            del self._generations[generation]
            self._to_server(CodecDone(generation=generation, samples=held.sent_samples, reason=held.reason))

    def _fail(self, generation: int, error: Exception) -> None:
        if self._generations.pop(generation, None) is not None:
            self._totals["faults_total"] += 1
            self._to_server(Failed(generation=generation, detail=f"{type(error).__name__}: {error}"))

    # ---- before and beside the work

    def warm_up(self, geometry: Geometry) -> None:
        """Decodes silence in the shapes that this geometry will meet, and measures what a call costs."""
        shapes = likely_shapes(geometry, chunk_limit(geometry, self._max_batch_frames))
        for shape in shapes:
            for windows in batch_sizes(shape, self._max_batch_frames):
                self._time_call(shape, windows)
        small, large = min(shapes, key=work), max(shapes, key=work)
        if work(large) > work(small):
            fast_s, slow_s = (min(self._time_call(shape) for _ in range(3)) for shape in (small, large))
            self._cost.fit((work(small), fast_s), (work(large), slow_s))

    def _time_call(self, shape: Shape, windows: int = 1) -> float:
        self._met.add((windows, shape))
        codes = np.zeros((windows, shape.total, CODEBOOKS), np.int16)
        self._decoder.capture(windows, shape.total, shape.left, shape.left + shape.size)
        begun_ns = self._now_ns()
        self._decoder.decode(codes, shape.left, shape.left + shape.size)
        return (self._now_ns() - begun_ns) / 1e9

    def stats(self) -> dict[str, float]:
        """Counters and gauges by name."""
        held = self._generations.values()
        return {
            **self._totals,
            **self._call_s.stats(),
            **self._call_windows.stats(),
            **self._window_frames.stats(),
            "batch_windows": self._batch_windows,
            "live_generations": len(held),
            "starved_generations": sum(generation.credit_frames == 0 for generation in held),
            "queued_frames": sum(generation.frames - generation.sent_frames for generation in held),
            "row_seconds": self._pace.row_s,
            "call_load": self._cost.load,
        }
