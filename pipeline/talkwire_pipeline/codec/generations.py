"""What the codec holds of a generation. Pure."""

from __future__ import annotations

import numpy as np

from talkwire_pipeline.codec.schedule import CallCost, Cuts, Outlook
from talkwire_pipeline.codec.windows import Window
from talkwire_pipeline.delay import DELAY, undelay
from talkwire_pipeline.geometry import CODEBOOKS, SAMPLES_PER_FRAME
from talkwire_pipeline.messages import Begin, Codes, EndReason
from talkwire_pipeline.player import samples_ns


class Generation:
    """Its rows, what went out of it, and a model of its player.

    Attributes:
        cuts: how its chunks may be cut.
        reason: why its rows ended; None: they have not.
        sent_frames: frames that went out.
        chunks: chunks that they made.
        dry_ns: when the player runs dry if what went out reached it; 0: nothing is playing.
    """

    def __init__(self, begin: Begin, max_batch_frames: int) -> None:
        self.cuts = Cuts(begin.geometry, max_batch_frames)
        self.reason: EndReason | None = None
        self.sent_frames = 0
        self.chunks = 0
        self.dry_ns = begin.dry_ns
        self._rows = np.empty((begin.max_rows, CODEBOOKS), np.int16)
        self._count = 0
        self._initial_credit = begin.credit_samples
        self._taken = 0

    @property
    def frames(self) -> int:
        """Frames that are there: the last codebook of a frame comes 7 rows after its first."""
        return max(self._count - DELAY, 0)

    @property
    def sent_samples(self) -> int:
        """Samples that went out."""
        return self.sent_frames * SAMPLES_PER_FRAME

    @property
    def complete(self) -> bool:
        """Whether all that there will ever be went out."""
        return self.reason is not None and self.sent_frames == self.frames

    @property
    def credit_frames(self) -> int:
        """Frames that may be decoded now."""
        return max(self._initial_credit + self._taken - self.sent_samples, 0) // SAMPLES_PER_FRAME

    def add_row(self, row: Codes) -> None:
        """Copies one row [8]. Raises `ValueError` beyond the number of rows that `Begin` announced."""
        if self._count == len(self._rows):
            raise ValueError(f"more rows than the {self._count} that were announced")
        self._rows[self._count] = row
        self._count += 1

    def add_credit(self, samples: int) -> None:
        """The reader took so many samples."""
        self._taken += samples

    def sent(self, window: Window, now_ns: int) -> None:
        """The window's chunk went out now."""
        self.sent_frames += window.frames
        self.chunks += 1
        self.dry_ns = max(self.dry_ns, now_ns) + samples_ns(window.frames * SAMPLES_PER_FRAME)

    def dry_at_ns(self, now_ns: int) -> int:
        """When the player runs dry, from what is known now; 0: nothing is playing.

        What the reader has not taken cannot have been played, however long ago it went out.
        """
        untaken = self.sent_samples - self._taken
        return max(self.dry_ns, now_ns + samples_ns(untaken)) if untaken > 0 else self.dry_ns

    def buffer_s(self, now_ns: int) -> float:
        """Seconds until the player runs dry; 0: nothing is playing."""
        return max(self.dry_at_ns(now_ns) - now_ns, 0) / 1e9

    def outlook(self, now_ns: int, row_s: float, cost: CallCost, hungry: int) -> Outlook:
        """What is known for the choice of its next chunk."""
        return Outlook(
            start=self.sent_frames,
            chunks=self.chunks,
            frames=self.frames,
            ended=self.reason is not None,
            buffer_s=self.buffer_s(now_ns),
            credit_frames=self.credit_frames,
            initial_credit_frames=self._initial_credit // SAMPLES_PER_FRAME,
            untaken=self.sent_samples > self._taken,
            row_s=row_s,
            cost=cost,
            hungry=hungry,
        )

    def codes(self, window: Window) -> Codes:
        """The window's frames with their context: [left + size + right, 8]. Behind the end the last frame repeats."""
        shape = window.shape
        first = window.start - shape.left
        frames = undelay(self._rows[first : min(first + shape.total + DELAY, self._count)])
        missing = shape.total - len(frames)
        return np.concatenate([frames, np.repeat(frames[-1:], missing, axis=0)]) if missing else frames
