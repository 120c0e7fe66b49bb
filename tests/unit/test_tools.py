"""The checkout's own tools."""

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

from tools import figures, spectrogram

GOOD = '"""A module."""\n\n\ndef short() -> int:\n    """One."""\n    return 1\n'


def checkout(folder: Path, code: str) -> Path:
    package = folder / "server" / "package"
    package.mkdir(parents=True)
    (package / "module.py").write_text(code)
    generated = folder / "clients" / "talkwire" / "v1"
    generated.mkdir(parents=True)
    (generated / "speech_pb2.py").write_text("x = 1\n" * 1000)
    return folder


def test_good_code_is_within_the_limits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert figures.main(checkout(tmp_path, GOOD)) == 0
    assert "files 1, lines: p90 6, max 6" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        (GOOD + "x = 1\n" * 395, "module.py has 401 lines"),
        (GOOD + "def _long():\n" + "    x = 1\n" * 60, "module.py:7 _long has 61 lines"),
        (GOOD + "def bare():\n    return 2\n", "module.py:7 bare has no docstring"),
        (GOOD + 'class Fine:\n    """Fine."""\n    def bare(self): ...\n', "module.py:9 bare has no docstring"),
        ("def _long():\n" + "    x = 1\n" * 9, "above a median of 8"),
    ],
)
def test_each_limit_holds(code: str, fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert figures.main(checkout(tmp_path, code)) == 1
    assert fault in capsys.readouterr().out


def test_a_tone_is_a_bright_line_at_its_height() -> None:
    rate_hz = 24_000
    tone = np.sin(2 * np.pi * 2000 * np.arange(rate_hz) / rate_hz)
    levels = spectrogram.levels(tone, rate_hz)
    assert levels.max() == 1.0
    middle = levels[:, levels.shape[1] // 2]
    bands = spectrogram.TOP_HZ * spectrogram.FFT_SAMPLES // rate_hz
    assert abs(bands - int(middle.argmax()) - 2000 * spectrogram.FFT_SAMPLES / rate_hz) <= 1


def test_silence_is_dark() -> None:
    assert spectrogram.levels(np.zeros(2400), 24_000).max() == 0.0


def test_a_png_holds_the_pixels() -> None:
    pixels = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)
    data = spectrogram.png(pixels)
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", data[16:24]) == (3, 2)
    at, found = 8, {}
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert struct.unpack(">I", data[at + 8 + length : at + 12 + length]) == (zlib.crc32(kind + body),)
        found[kind] = body
        at += 12 + length
    assert zlib.decompress(found[b"IDAT"]) == b"".join(b"\0" + row.tobytes() for row in pixels)
    assert list(found) == [b"IHDR", b"IDAT", b"IEND"]
