"""How samples become bytes: 16-bit PCM, bare or behind a WAV header. Pure."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from talkwire_pipeline.geometry import SAMPLE_RATE_HZ

Encoding = Literal["pcm_s16le", "wav"]
BYTES_PER_SAMPLE = 2
"""Bytes of one encoded sample."""
SAMPLE_RATES_HZ = (SAMPLE_RATE_HZ,)
"""Rates that a caller may ask for."""
UNKNOWN_SIZE = 0xFFFFFFFF
"""Size fields of a WAV header whose audio has no known end."""


@dataclass(frozen=True, slots=True)
class Format:
    """The form in which a caller wants its audio."""

    encoding: Encoding = "pcm_s16le"
    sample_rate_hz: int = SAMPLE_RATE_HZ


def pcm_s16le(samples: npt.NDArray[np.float32]) -> bytes:
    """`samples` [S], -1 to 1 and clipped there, as S signed 16-bit little-endian numbers."""
    scaled: bytes = np.clip(np.rint(samples * 32767.0), -32768, 32767).astype("<i2").tobytes()
    return scaled


def wav_header(sample_rate_hz: int, data_bytes: int = UNKNOWN_SIZE) -> bytes:
    """The canonical 44-byte header of mono 16-bit PCM; players of a stream take the unknown size as "to the end"."""
    riff_bytes = UNKNOWN_SIZE if data_bytes == UNKNOWN_SIZE else 36 + data_bytes
    byte_rate = sample_rate_hz * BYTES_PER_SAMPLE
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, sample_rate_hz, byte_rate, BYTES_PER_SAMPLE, 16)
    return struct.pack("<4sI4s", b"RIFF", riff_bytes, b"WAVE") + form + struct.pack("<4sI", b"data", data_bytes)


class Encoder:
    """Encodes one utterance's audio, piece by piece; every piece holds whole samples."""

    def __init__(self, form: Format) -> None:
        self._pending = wav_header(form.sample_rate_hz) if form.encoding == "wav" else b""

    def encode(self, samples: npt.NDArray[np.float32]) -> bytes:
        """The next piece's bytes; the first WAV piece begins with the header."""
        header, self._pending = self._pending, b""
        return header + pcm_s16le(samples)
