"""Draws a spectrogram as a PNG file, with numpy alone."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

FFT_SAMPLES = 1024
HOP_SAMPLES = 120
RANGE_DB = 80.0
"""How far below the loudest point the picture goes."""
TOP_HZ = 8000
# Black, purple, red, orange, pale yellow: evenly brighter, so that a printout in grey reads the same.
_COLOURS = np.array(
    [
        (0, 0, 4),
        (40, 11, 84),
        (101, 21, 110),
        (159, 42, 99),
        (212, 72, 66),
        (245, 125, 21),
        (250, 193, 39),
        (252, 255, 164),
    ]
)


def levels(samples: npt.NDArray[np.float64], sample_rate_hz: int) -> npt.NDArray[np.float64]:
    """Level of each band and moment, [bands, moments] in 0 (`RANGE_DB` down) to 1 (the loudest); low bands last."""
    padded = np.pad(samples, FFT_SAMPLES // 2)
    windows = np.lib.stride_tricks.sliding_window_view(padded, FFT_SAMPLES)[::HOP_SAMPLES]
    power = np.abs(np.fft.rfft(windows * np.hanning(FFT_SAMPLES))) ** 2
    bands = power[:, : 1 + TOP_HZ * FFT_SAMPLES // sample_rate_hz].T[::-1]
    level_db = 10 * np.log10(bands / max(bands.max(), 1e-12) + 1e-12)
    shown: npt.NDArray[np.float64] = np.clip(1 + level_db / RANGE_DB, 0, 1)
    return shown


def colour(levels_: npt.NDArray[np.float64]) -> npt.NDArray[np.uint8]:
    """Levels [H, W] in 0 to 1 as colours [H, W, 3]."""
    places = np.linspace(0, 1, len(_COLOURS))
    return np.stack([np.interp(levels_, places, _COLOURS[:, part]) for part in range(3)], axis=-1).astype(np.uint8)


def png(pixels: npt.NDArray[np.uint8]) -> bytes:
    """A PNG file of pixels [H, W, 3]."""
    height, width, _ = pixels.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, width * 3)], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks)


def draw(audio: bytes, sample_rate_hz: int, path: Path) -> None:
    """Draws mono s16le audio into a PNG file."""
    samples = np.frombuffer(audio, "<i2").astype(np.float64) / 32768
    path.write_bytes(png(colour(levels(samples, sample_rate_hz))))


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
