"""The delay pattern: how frames become code rows and back. Pure.

Codebook k of a frame travels k rows later than its codebook 0, so that a row's eight codes can be drawn together.
"""

from __future__ import annotations

import numpy as np

from talkwire_pipeline.geometry import CODEBOOKS
from talkwire_pipeline.messages import Codes

REAL_CODES = 1024
"""Codes 0 to 1023 stand for sound."""
BOC = 1024
"""Begins a codebook: stands where a codebook has no code yet."""
EOC = 1025
"""Ends a codebook: stands where a codebook has no code any more."""
CODEBOOK_SIZE = 1026
"""Values that a code takes, markers included."""
DELAY = CODEBOOKS - 1
"""Rows by which the last codebook is late, and by which rows outnumber frames."""


def delay(frames: Codes) -> Codes:
    """Rows [T + 7, 8] of `frames` [T, 8]: BOC before each codebook's codes, EOC behind them."""
    count = len(frames)
    rows = np.full((count + DELAY, CODEBOOKS), EOC, dtype=np.int16)
    for codebook in range(CODEBOOKS):
        rows[:codebook, codebook] = BOC
        rows[codebook : codebook + count, codebook] = frames[:, codebook]
    return rows


def undelay(rows: Codes) -> Codes:
    """Frames [max(N - 7, 0), 8] of `rows` [N, 8]; what is no real code becomes 0 (1023 is one: nothing is clamped)."""
    count = max(len(rows) - DELAY, 0)
    frames = np.empty((count, CODEBOOKS), dtype=np.int16)
    for codebook in range(CODEBOOKS):
        frames[:, codebook] = rows[codebook : codebook + count, codebook]
    frames[(frames < 0) | (frames >= REAL_CODES)] = 0
    return frames
