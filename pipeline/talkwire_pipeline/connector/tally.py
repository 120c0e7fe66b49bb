"""A running total that one process adds to and another follows, over an eventfd that wakes the one who follows.

The kernel orders memory at every add and every read: what was stored before an `add` is there for whoever has read
it. Either process may be killed between any two instructions and be replaced by another on the same descriptor. An
eventfd hands over differences, so a killed follower takes those that it has read with it. Hence totals: a new
process says its own total outright and asks for the other's (`hello`), and the other answers on its own tally.
Until the answer is there a new follower goes by the last total that was noted in shared memory. That may be too
small, never too large.
"""

from __future__ import annotations

import os

_AMOUNT = (1 << 48) - 1
_NUDGE = 1 << 48  # may add up: there is room for thousands below the flags
_TOTAL = 1 << 61
_HELLO = 1 << 62


class Tally:
    """One eventfd. A process either adds to it or follows it.

    Args:
        fd: non-blocking; stays the caller's.
        modulus: the total counts modulo this.
    """

    def __init__(self, fd: int, modulus: int) -> None:
        self.fd = fd
        self._modulus = modulus

    # ---- for the one who adds

    def add(self, amount: int) -> None:
        """Adds, and wakes the follower. `amount` > 0."""
        os.eventfd_write(self.fd, amount)

    def announce(self, total: int, *, hello: bool = False) -> None:
        """Says the total outright, and wakes the follower.

        All that was added so far must be in `total`. With `hello` the follower is asked to announce its own.
        """
        self._take()  # or the differences that nobody has read would be counted twice
        os.eventfd_write(self.fd, _TOTAL | (_HELLO if hello else 0) | total)

    # ---- for the one who follows

    def follow(self, total: int) -> tuple[int, bool]:
        """The total, given the one known so far, and whether the adding process asks for ours. Never waits."""
        value = self._take()
        known = 0 if value & _TOTAL else total
        return (known + (value & _AMOUNT)) % self._modulus, bool(value & _HELLO)

    def nudge(self) -> None:
        """Makes the descriptor readable, and changes nothing else."""
        os.eventfd_write(self.fd, _NUDGE)

    def _take(self) -> int:
        try:
            return os.eventfd_read(self.fd)
        except BlockingIOError:  # nothing was added
            return 0
