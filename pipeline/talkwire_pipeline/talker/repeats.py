"""Tells when a generation goes round in circles. Pure.

A talker that has lost its text may repeat a piece of audio until its cap. Speech never repeats itself row for row, and
silence does so only for as long as a pause lasts; so rows that repeat exactly for longer than that are a fault.
"""

from __future__ import annotations

from talkwire_pipeline.geometry import FRAME_RATE_HZ
from talkwire_pipeline.messages import Codes

CHECK_ROWS = FRAME_RATE_HZ
"""A generation is looked at after every so many rows."""
REPEATED_ROWS = 5 * FRAME_RATE_HZ
"""Rows that must all have come before: 5 s, longer than any pause."""
MAX_PERIOD = 2 * FRAME_RATE_HZ
"""The longest piece whose repetition is noticed: 2 s."""


def is_repeating(rows: Codes) -> bool:
    """Whether the last `REPEATED_ROWS` of `rows` [N, 8] each equal the row one period before, for some period."""
    count = len(rows)
    if count < REPEATED_ROWS + 1:
        return False
    tail = rows[count - REPEATED_ROWS :]
    longest = min(MAX_PERIOD, count - REPEATED_ROWS)
    return any(
        (tail[-1] == rows[-1 - period]).all() and (tail == rows[count - REPEATED_ROWS - period : count - period]).all()
        for period in range(1, longest + 1)
    )
