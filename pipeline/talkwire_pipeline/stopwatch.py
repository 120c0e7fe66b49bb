"""Times of one utterance: first text, first audio, last audio."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

from talkwire_pipeline.events import Statistics
from talkwire_pipeline.geometry import SAMPLE_RATE_HZ

Moment = Literal["first_text", "slot", "first_row", "first_audio"]
"""What an utterance comes by, in this order; the first row is heard of when all rows of its segment are made."""


class Stopwatch:
    """Notes when things happened; `clock` gives seconds.

    Attributes:
        on_moment: told of each `Moment`, once, with its time by `monotonic_ns`.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.on_moment: Callable[[Moment, int], None] = lambda moment, at_ns: None
        self._text_at: float | None = None
        self._first_audio_at: float | None = None
        self._last_audio_at = 0.0
        self._first_samples = 0
        self._queue_wait_s: float | None = None
        self._rows = False
        self._longest_gap_s = 0.0
        self._underrun_s = 0.0
        self._longest_underrun_s = 0.0

    def hear(self) -> bool:
        """Speakable text came; True the first time."""
        first = self._text_at is None
        if first:
            self._text_at = self._clock()
            self.on_moment("first_text", time.monotonic_ns())
        return first

    def open(self, waited_s: float) -> None:
        """A segment was opened that had waited so long for a slot."""
        if self._queue_wait_s is None:
            self._queue_wait_s = waited_s
            self.on_moment("slot", time.monotonic_ns())

    def row(self, at_ns: int) -> None:
        """A segment's first row was made then."""
        if not self._rows:
            self._rows = True
            self.on_moment("first_row", at_ns)

    def generate(self, late_s: float) -> None:
        """Audio came from the codec; a player without a buffer had been dry for so long."""
        now = self._clock()
        if self._last_audio_at:
            self._longest_gap_s = max(self._longest_gap_s, now - self._last_audio_at)
        self._last_audio_at = now
        self._underrun_s += late_s
        self._longest_underrun_s = max(self._longest_underrun_s, late_s)

    def speak(self, samples: int) -> None:
        """Audio went out to the caller."""
        if self._first_audio_at is None:
            self._first_audio_at = self._clock()
            self._first_samples = samples
            self.on_moment("first_audio", time.monotonic_ns())

    def statistics(self, sample_count: int, segment_count: int, character_count: int) -> Statistics:
        """The figures of an utterance that is over.

        The real-time factor is from the first text in to the last audio out of the codec, whatever the caller took.
        """
        begun = self._text_at or 0.0
        duration_s = sample_count / SAMPLE_RATE_HZ
        return Statistics(
            sample_count=sample_count,
            segment_count=segment_count,
            character_count=character_count,
            ttfa_s=0.0 if self._first_audio_at is None else self._first_audio_at - begun,
            first_payload_s=self._first_samples / SAMPLE_RATE_HZ,
            real_time_factor=(self._last_audio_at - begun) / duration_s if duration_s else 0.0,
            duration_s=max(self._last_audio_at - begun, 0.0),
            queue_wait_s=self._queue_wait_s or 0.0,
            longest_gap_s=self._longest_gap_s,
            underrun_s=self._underrun_s,
            longest_underrun_s=self._longest_underrun_s,
        )
