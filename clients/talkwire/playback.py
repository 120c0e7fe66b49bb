"""What a listener hears of audio that arrives in pieces. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

CONTINUITY_S = 0.1
"""A gap up to this long counts as continuous: C100."""


class Arrival(NamedTuple):
    """A piece of audio of `duration_s` that came at `at_s` on any clock."""

    at_s: float
    duration_s: float


def longest_underrun_s(arrivals: Iterable[Arrival]) -> float:
    """Longest silence of a player that starts with the first piece and keeps no extra buffer.

    It stops when it runs dry and goes on when the next piece comes. 0 without audio.
    """
    longest, dry_at_s = 0.0, None
    for at_s, duration_s in arrivals:
        dry_at_s = at_s if dry_at_s is None else dry_at_s
        longest = max(longest, at_s - dry_at_s)
        dry_at_s = max(at_s, dry_at_s) + duration_s
    return longest


def continuity(underruns_s: Iterable[float], limit_s: float = CONTINUITY_S) -> float:
    """Share of utterances, given each one's longest underrun, that play without a gap over `limit_s`. 0 of none."""
    verdicts = [underrun_s <= limit_s for underrun_s in underruns_s]
    return sum(verdicts) / len(verdicts) if verdicts else 0.0
