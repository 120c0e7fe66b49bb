"""How long a text may at most take to speak. Pure."""

from __future__ import annotations

import math
import re
import unicodedata

from talkwire_pipeline.deploy.schema import CapWeights
from talkwire_pipeline.geometry import FRAME_RATE_HZ
from talkwire_pipeline.text.controls import CONTROL, delivery_kind

DELAY_ROWS = 7
"""Rows that a generation has beyond its frames."""
_SLOW = {"<|prosody:speed_slow|>": 1.5, "<|prosody:speed_very_slow|>": 2.0}
# Kana, CJK ideographs (all planes) and Hangul syllables: a syllable or more each.
_IDEOGRAPH = re.compile(
    "[\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]"
)
_SPELT = re.compile(r"(?<![^\W\d_])[A-Z]{1,5}(?![^\W\d_])")
_LETTER = re.compile(r"[^\W\d_]")
# A run of one mark is one pause.
_SYMBOL = re.compile(r"([^\w\s])\1*|\d|_")


def cap_seconds(text: str, weights: CapWeights) -> float:
    """Seconds of speech that `text`, as the model gets it, may at most become."""
    plain = CONTROL.sub(" ", text)
    letters, ideographs, symbols = _count(plain)
    tokens = CONTROL.findall(text)
    acting = sum(delivery_kind(token) is None for token in tokens)
    seconds = (
        weights.base_s
        + weights.letter_s * letters
        + weights.ideograph_s * ideographs
        + weights.digit_or_symbol_s * symbols
        + weights.pause_s * acting
    )
    return seconds * max((_SLOW.get(token, 1.0) for token in tokens), default=1.0)


def _count(text: str) -> tuple[int, int, int]:
    """Letters, ideographs, and digits or symbols. Words in capitals may be spelt: their letters are symbols."""
    ideographs = len(_IDEOGRAPH.findall(text))
    spelt = sum(map(len, _SPELT.findall(text)))
    letters = len(_LETTER.findall(text)) - ideographs - spelt
    marks = (found[0][0] for found in _SYMBOL.finditer(text))
    symbols = sum(unicodedata.category(mark)[0] in "PSN" for mark in marks)
    return letters, ideographs, symbols + spelt


def cap_rows(text: str, weights: CapWeights) -> int:
    """Rows of a generation that speaks `text`, at most."""
    # The sum of binary fractions may lie a hair above a whole row.
    return math.ceil(round(cap_seconds(text, weights) * FRAME_RATE_HZ, 6)) + DELAY_ROWS
