"""A bounded ring of records between one writer and one reader, in anonymous shared memory.

The memory comes from `memfd_create`, wake-ups go through two `eventfd`s; a process gets all three as descriptors, and
nothing has a name. Both cursors live in the ring, each written by its owner alone, so that either side can be killed
and replaced while the other one goes on.

The writer stores a record, then its cursor, then adds 1 to the data eventfd; the reader takes no record that it has
not been signalled. The reader moves its cursor, then adds the freed bytes to the space eventfd; the writer uses no
byte that it has not been signalled. Every hand-over thus has a system call on both sides, which orders the memory on
every CPU, and no wake-up is lost.

A process that is killed between its cursor and its signal leaves a signal too few; whoever takes its place therefore
sends one too many. Signals are bounded by the cursors, so one too many does no harm.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from contextlib import suppress

import msgspec

Buffer = bytes | bytearray | memoryview

ALIGNMENT = 32
"""Records begin at multiples of so many bytes, so the head of one always fits before the end of the ring."""
_HEADER_BYTES = mmap.PAGESIZE
# Words of the header, a cache line apart. Cursors count bytes since the beginning and never wrap.
_WRITTEN = 0
_READ = 8
_FILLER_BIT = 1 << 31


class RingFds(msgspec.Struct, frozen=True):
    """The descriptors of a ring: its memory, and the eventfds for data and for space."""

    memory: int
    data: int
    space: int


def padded(size: int) -> int:
    """`size` bytes as they lie in the ring."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def _signal(fd: int, count: int) -> None:
    os.eventfd_write(fd, count)


def _collect(fd: int) -> int:
    """The signals since the last time."""
    try:
        return os.eventfd_read(fd)
    except BlockingIOError:
        return 0


class Ring:
    """The three descriptors and the mapped memory. A process uses one of `writer` and `reader`, once.

    Attributes:
        fds: to be passed to the other process.
        name: for messages.
        capacity: bytes that records may take.
    """

    def __init__(self, fds: RingFds, name: str) -> None:
        self.fds = fds
        self.name = name
        self._map = mmap.mmap(fds.memory, 0)
        self.memory = memoryview(self._map)
        self.words = self.memory[:_HEADER_BYTES].cast("Q")
        self.data = self.memory[_HEADER_BYTES:]
        self.capacity = len(self.data)

    @classmethod
    def create(cls, capacity_bytes: int, name: str = "") -> Ring:
        """A new, empty ring that holds at least `capacity_bytes`."""
        pages = -(-capacity_bytes // mmap.PAGESIZE)
        memory = os.memfd_create(f"talkwire-{name or 'ring'}", os.MFD_CLOEXEC)
        os.ftruncate(memory, _HEADER_BYTES + max(pages, 1) * mmap.PAGESIZE)
        flags = os.EFD_NONBLOCK | os.EFD_CLOEXEC
        return cls(RingFds(memory, os.eventfd(0, flags), os.eventfd(0, flags)), name)

    @classmethod
    def attach(cls, fds: RingFds, name: str = "") -> Ring:
        """A ring that another process made; takes the descriptors over."""
        return cls(fds, name)

    def writer(self) -> RingWriter:
        """This process writes."""
        return RingWriter(self)

    def reader(self) -> RingReader:
        """This process reads."""
        return RingReader(self)

    @property
    def used(self) -> int:
        """Bytes that are written and not read, as either side may see it."""
        return self.words[_WRITTEN] - self.words[_READ]

    def close(self) -> None:
        """Closes the descriptors; the memory goes with the last view of it. Idempotent."""
        for fd in (self.fds.memory, self.fds.data, self.fds.space):
            if fd >= 0:
                os.close(fd)
        self.fds = RingFds(-1, -1, -1)
        self.words.release()
        with suppress(BufferError):  # an array that somebody still looks at keeps the mapping
            self.data.release()
            self.memory.release()
            self._map.close()


class RingWriter:
    """The writing side. Goes on where a writer before it was killed."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self._written = ring.words[_WRITTEN]
        _collect(ring.fds.space)
        self._freed = ring.words[_READ]
        _signal(ring.fds.data, 1)  # for a record whose writer was killed before it could

    @property
    def fileno(self) -> int:
        """Readable when space came back."""
        return self._ring.fds.space

    @property
    def used(self) -> int:
        """Bytes that cannot be written now."""
        return self._written - self._freed

    @property
    def max_record_bytes(self) -> int:
        """The largest record that always finds room in an empty ring, wherever the cursor stands."""
        return self._ring.capacity // 2

    def reclaim(self) -> None:
        """Takes back the space that the reader has freed."""
        freed = self._freed + _collect(self._ring.fds.space)
        self._freed = min(freed, self._ring.words[_READ])

    def write(self, parts: Sequence[Buffer], size: int) -> bool:
        """One record of `size` bytes: the parts, one behind the other, each at a multiple of 8. False: no room.

        The first part begins with two unsigned 32-bit little-endian words: one of the caller's, with the highest bit
        clear, and `size`.
        """
        needed = padded(size)
        skipped = self._skipped(needed)
        if self.used + skipped + needed > self._ring.capacity:
            self.reclaim()
            if self.used + skipped + needed > self._ring.capacity:
                return False
        if skipped:
            self._put(self._written % self._ring.capacity, _filler(skipped))
        place = (self._written + skipped) % self._ring.capacity
        for part in parts:
            self._put(place, part)
            place += len(part) + -len(part) % 8
        self._publish(skipped + needed)
        return True

    def _skipped(self, needed: int) -> int:
        """Bytes to the end of the ring that a record leaves free, because it does not fit before it."""
        left = self._ring.capacity - self._written % self._ring.capacity
        return left if needed > left else 0

    def _put(self, place: int, part: Buffer) -> None:
        self._ring.data[place : place + len(part)] = part

    def _publish(self, size: int) -> None:
        self._written += size
        self._ring.words[_WRITTEN] = self._written
        _signal(self._ring.fds.data, 1)


class RingReader:
    """The reading side. Goes on where a reader before it was killed."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self._read = ring.words[_READ]
        self._signalled = 0
        _signal(ring.fds.space, ring.capacity)  # for bytes whose reader was killed before it could
        self._data = ring.data.toreadonly()

    @property
    def fileno(self) -> int:
        """Readable when records came."""
        return self._ring.fds.data

    def next(self) -> memoryview | None:
        """The next record that was signalled, read-only; it stays until `free`. None: there is none.

        Call it until it gives None: the descriptor is readable again only for what comes later.
        """
        while not self._available():
            self._signalled = _collect(self._ring.fds.data)
            if self._signalled == 0:
                return None
        self._skip_filler()
        start = self._read % self._ring.capacity
        size = int.from_bytes(self._data[start + 4 : start + 8], "little")
        return self._data[start : start + size]

    def _available(self) -> bool:
        """Whether a record is there that was signalled. Signals without a record were one too many."""
        return self._signalled > 0 and self._read != self._ring.words[_WRITTEN]

    def _skip_filler(self) -> None:
        start = self._read % self._ring.capacity
        word, size = (int.from_bytes(self._data[start + at : start + at + 4], "little") for at in (0, 4))
        if word & _FILLER_BIT:
            self._advance(size)

    def free(self, record: memoryview) -> None:
        """Gives back the record that `next` gave."""
        self._signalled -= 1
        self._advance(padded(len(record)))

    def discard(self) -> int:
        """Drops all that was written; how many bytes."""
        _collect(self._ring.fds.data)
        self._signalled = 0
        dropped = self._ring.words[_WRITTEN] - self._read
        if dropped:
            self._advance(dropped)
        return dropped

    def _advance(self, size: int) -> None:
        self._read += size
        self._ring.words[_READ] = self._read
        _signal(self._ring.fds.space, size)


def _filler(size: int) -> bytes:
    return _FILLER_BIT.to_bytes(4, "little") + size.to_bytes(4, "little")
