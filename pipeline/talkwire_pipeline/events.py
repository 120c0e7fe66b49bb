"""What an utterance tells its caller, in order. Sample positions count from the utterance's start at 24 kHz."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from talkwire_pipeline.errors import TalkwireError
from talkwire_pipeline.geometry import Geometry


@dataclass(frozen=True, slots=True)
class Started:
    """First of all: the utterance is accepted, with these values in force."""

    server_id: str
    seed: int
    geometry: Geometry
    runner: str


@dataclass(frozen=True, slots=True)
class Audio:
    """Audio without gaps: `samples` [S] float32 at 24 kHz, beginning at `first_sample`."""

    first_sample: int
    samples: npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Span:
    """Characters `[text_start, text_end)` of the joined text are spoken in `[start_sample, end_sample)`."""

    text_start: int
    text_end: int
    start_sample: int
    end_sample: int
    kind: Literal["segment", "word"] = "segment"
    exact: bool = True


@dataclass(frozen=True, slots=True)
class Timing:
    """Where spans of the source text lie."""

    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Flushed:
    """All audio of the text before one flush is out: `segment_count` segments, `end_sample` samples so far."""

    segment_count: int
    end_sample: int


@dataclass(frozen=True, slots=True)
class Statistics:
    """What an utterance took. Times in seconds; `ttfa_s` and `real_time_factor` are 0 where there was no audio.

    `duration_s` is from the first text to the last audio, `queue_wait_s` what the first segment waited for a slot,
    `longest_gap_s` between two chunks from the codec. A player without a buffer was dry for `underrun_s` in all, at
    most for `longest_underrun_s` at a time, with text at hand.
    """

    sample_count: int
    segment_count: int
    character_count: int
    ttfa_s: float
    first_payload_s: float
    real_time_factor: float
    duration_s: float = 0.0
    queue_wait_s: float = 0.0
    longest_gap_s: float = 0.0
    underrun_s: float = 0.0
    longest_underrun_s: float = 0.0


FinishReason = Literal["complete", "cap", "loop", "max_audio"]
"""Why an utterance finished: the model ended every segment itself; a segment ran into its cap; one went in circles;
the utterance became as long as one may be, and the rest of its text was not spoken."""


@dataclass(frozen=True, slots=True)
class Finished:
    """End event: all is spoken."""

    reason: FinishReason
    statistics: Statistics


@dataclass(frozen=True, slots=True)
class Aborted:
    """End event: dropped by the caller. The two texts together are the text received."""

    spoken_text: str
    unspoken_text: str
    generated_samples: int


@dataclass(frozen=True, slots=True)
class Failed:
    """End event: it broke, was refused later on, or ran past a deadline."""

    error: TalkwireError


Event = Started | Audio | Timing | Flushed | Finished | Aborted | Failed
END_EVENTS = (Finished, Aborted, Failed)
"""Exactly one of these is an utterance's last event."""
