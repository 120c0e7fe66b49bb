"""The measure of the speech test measures."""

import numpy as np
import pytest

from support.recognise import errors, resample, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It's Mr. O’Neil, 'quoted'!", ["it's", "mister", "o'neil", "quoted"]),
        ("Twenty-two of 105", ["twenty", "two", "of", "one", "hundred", "five"]),
        ("...", []),
    ],
)
def test_words_are_as_spoken(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@pytest.mark.parametrize(
    ("expected", "heard", "count"),
    [
        ("a b c", "a b c", 0),
        ("a b c", "a x c", 1),
        ("a b c", "a c", 1),
        ("a b", "z a b", 1),
        ("a b", "", 2),
        ("", "a", 1),
    ],
)
def test_errors_are_counted(expected: str, heard: str, count: int) -> None:
    assert errors(expected.split(), heard.split()) == count


def test_resampling_keeps_pitch_and_level() -> None:
    times = np.arange(24_000) / 24_000
    tone = np.sin(2 * np.pi * 440 * times).astype(np.float32)
    expected = np.sin(2 * np.pi * 440 * np.arange(16_000) / 16_000)
    assert resample(tone, 24_000, 16_000) == pytest.approx(expected, abs=1e-5)
