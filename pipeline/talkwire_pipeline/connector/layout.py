"""Where things lie in a ring: pure arithmetic in words of 8 bytes.

The memory is one page of header and then the data. A position counts words since the beginning, and a cursor is
a position with the number of messages before it. Both wrap, far beyond what a ring can hold, so that a cursor fits
one word and is stored at once: a process that is killed leaves the old cursor or the new one.
"""

from __future__ import annotations

import mmap

WORD_BYTES = 8
POSITIONS = 1 << 28
"""Positions count modulo this."""
COUNTS = 1 << 36
"""Messages count modulo this: two years at 1,000 a second."""
MAX_CAPACITY_BYTES = POSITIONS // 2 * WORD_BYTES
"""Of the largest ring: 1 GiB."""
RECORD_HEADER_WORDS = 4
"""Before each payload: kind and payload bytes; generation; sequence; time of sending."""
RECORD_HEADER_BYTES = RECORD_HEADER_WORDS * WORD_BYTES

# Words of the ring's header. Each side writes its own only, on a cache line of its own.
MAGIC_AT, CAPACITY_AT = 0, 1
HEAD_AT, FREED_AT = 8, 9  # the writer's: its cursor; the last total of freed words that it collected
TAIL_AT, SIGNALLED_AT = 16, 17  # the reader's: its cursor; the last total of messages that it collected
DATA_AT = mmap.PAGESIZE // WORD_BYTES
MAGIC = int.from_bytes(b"talkring", "little")
FILLER = 0
"""First word of what lies unused before the end of the data."""


def capacity_words(capacity_bytes: int) -> int:
    """The next power of two, of at least one page, as words."""
    return (1 << (max(capacity_bytes, mmap.PAGESIZE) - 1).bit_length()) // WORD_BYTES


def words_of(size_bytes: int) -> int:
    """Words that so many bytes need."""
    return -(-size_bytes // WORD_BYTES)


def pack_cursor(count: int, position: int) -> int:
    """A cursor as one word."""
    return count * POSITIONS | position


def unpack_cursor(word: int) -> tuple[int, int]:
    """Count and position of a cursor."""
    return divmod(word, POSITIONS)


def distance(later: int, earlier: int, modulus: int) -> int:
    """How far `later` is ahead; 0 if it is behind. Right while they are less than half of `modulus` apart."""
    ahead = (later - earlier) % modulus
    return ahead if ahead < modulus // 2 else 0


def at_most(value: int, limit: int, modulus: int) -> int:
    """`value`, or `limit` if `value` is ahead of it."""
    return limit if distance(value, limit, modulus) else value


def filler_before(position: int, need: int, capacity: int) -> int:
    """Words to leave unused so that `need` words from there on lie together: 0, or all up to the data's end."""
    rest = capacity - position % capacity
    return rest if need > rest else 0
