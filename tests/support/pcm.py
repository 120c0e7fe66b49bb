"""Compares audio."""

from __future__ import annotations

import numpy as np


def same(one: bytes, other: bytes) -> bool:
    """Whether two pieces of s16le are the same speech.

    Chunks and batches follow the load, so the codec's rounding may differ: by one step of 16 bits, no more.
    """
    left, right = (np.frombuffer(audio, "<i2").astype(np.int32) for audio in (one, other))
    return left.shape == right.shape and not np.any(np.abs(left - right) > 1)
