"""Speech as a whole, and WAV files of it. Pure but for the file."""

from __future__ import annotations

import os
import wave
from dataclasses import dataclass
from typing import IO

from talkwire.errors import Cancelled, Internal
from talkwire.v1 import speech_pb2 as pb

SAMPLE_BYTES = 2
"""Bytes of one sample of s16le."""

_WAV_HEADER_BYTES = 44

Event = pb.Started | pb.Audio | pb.Timing | pb.Flushed | pb.Finished | pb.Aborted
"""What an utterance yields, in order; the messages of the contract themselves. A failure is raised instead."""


@dataclass(frozen=True, slots=True, repr=False)
class Speech:
    """A finished utterance: `audio` holds its samples, mono, signed 16 bit little endian, without a header."""

    audio: bytes
    sample_rate_hz: int
    timings: tuple[pb.TimedSpan, ...]
    statistics: pb.Statistics
    capped: bool
    """Whether the model had to be stopped: the end of the text may be missing."""

    def __repr__(self) -> str:
        return f"<Speech of {self.duration_s:.2f} s at {self.sample_rate_hz} Hz, ttfa_s {self.statistics.ttfa_s:.3f}>"

    @property
    def duration_s(self) -> float:
        """Length of the audio in seconds."""
        return len(self.audio) / (SAMPLE_BYTES * self.sample_rate_hz)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a WAV file. Raises `OSError` where it cannot."""
        # Opened here: a `wave.Wave_write` whose file cannot be opened complains once more when it is collected.
        with open(path, "wb") as out, wav_writer(out, self.sample_rate_hz) as file:
            file.writeframes(self.audio)


def wav_writer(out: IO[bytes], sample_rate_hz: int) -> wave.Wave_write:
    """Writes mono s16le into an open file; a context manager that leaves the file open."""
    file = wave.open(out, "wb")  # noqa: SIM115 - the caller's to close
    file.setnchannels(1)
    file.setsampwidth(SAMPLE_BYTES)
    file.setframerate(sample_rate_hz)
    return file


class SpeechBuilder:
    """Puts the events of one utterance together."""

    def __init__(self, started: pb.Started | None = None) -> None:
        self._audio: list[bytes] = []
        self._timings: list[pb.TimedSpan] = []
        self._started = started or pb.Started()
        self._finished: pb.Finished | None = None

    def add(self, event: Event) -> None:
        """Takes the next event. Raises `Cancelled` for `Aborted`."""
        match event:
            case pb.Started():
                self._started = event
            case pb.Audio():
                self._audio.append(event.data)
            case pb.Timing():
                self._timings.extend(event.spans)
            case pb.Finished():
                self._finished = event
            case pb.Aborted():
                raise Cancelled("the utterance was aborted before its end")

    def build(self) -> Speech:
        """The whole. Raises `Internal` where the events ended without an end event."""
        if self._finished is None:
            raise Internal("the stream ended without an end event")
        data = b"".join(self._audio)
        return Speech(
            audio=data[_WAV_HEADER_BYTES:] if self._started.encoding == pb.AUDIO_ENCODING_WAV else data,
            sample_rate_hz=self._started.sample_rate_hz,
            timings=tuple(self._timings),
            statistics=self._finished.statistics,
            capped=self._finished.reason == pb.FINISH_REASON_CAP,
        )
