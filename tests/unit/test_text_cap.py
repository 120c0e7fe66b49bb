"""The cap counts what a text weighs."""

from __future__ import annotations

import math

import pytest

from talkwire_pipeline.deploy.schema import CapWeights
from talkwire_pipeline.text.cap import cap_rows, cap_seconds

WEIGHTS = CapWeights()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("", 0.6),
        ("hello", 0.6 + 5 * 0.15),
        ("Hello there", 0.6 + 10 * 0.15),
        ("café", 0.6 + 4 * 0.15),
        ("42", 0.6 + 2 * 0.6),
        ("Hi!", 0.6 + 2 * 0.15 + 0.6),
        ("Hi!!!", 0.6 + 2 * 0.15 + 0.6),
        ("你好", 0.6 + 2 * 0.45),
        ("こんにちは", 0.6 + 5 * 0.45),
        ("e\u0301", 0.6 + 0.15),
        ("FBI", 0.6 + 3 * 0.6),
        ("a<|prosody:pause|>b", 0.6 + 2 * 0.15 + 2),
        ("<|sfx:sigh|>", 0.6 + 2),
        ("<|emotion:joy|>hello", 0.6 + 5 * 0.15),
        ("<|prosody:speed_slow|>hello", 1.5 * (0.6 + 5 * 0.15)),
        ("<|prosody:speed_very_slow|>hello", 2 * (0.6 + 5 * 0.15)),
        ("<|prosody:speed_fast|>hello", 0.6 + 5 * 0.15),
    ],
)
def test_seconds(text: str, seconds: float) -> None:
    assert cap_seconds(text, WEIGHTS) == pytest.approx(seconds)


def test_rows_are_whole_and_carry_the_delay() -> None:
    assert cap_rows("hello", WEIGHTS) == math.ceil(1.35 * 25) + 7
    assert cap_rows("", CapWeights(base_s=0.2)) == 5 + 7


def test_weights_come_from_the_deploy_file() -> None:
    weights = CapWeights(letter_s=1, digit_or_symbol_s=2, ideograph_s=3, pause_s=4, base_s=5)
    assert cap_seconds("a 1 你 <|prosody:long_pause|>", weights) == 1 + 2 + 3 + 4 + 5
