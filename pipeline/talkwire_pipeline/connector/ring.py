"""A bounded ring for variable-sized records in anonymous shared memory: one writer, one reader, no names.

The writer stores the record, then its cursor, then adds 1 to the `data` tally; the reader takes only as many
records as it has collected there. When it is done with one it stores its own cursor and adds the freed words to the
`space` tally; the writer reuses only what it has collected there. So each side touches only memory that the kernel
has handed over to it, on every CPU, and no wake-up is lost. One too many does no harm: no total that is collected
goes beyond the other side's cursor.

Either process may be killed at any instruction and replaced by one that attaches to the same descriptors. It goes
on from its own cursor; `tally` tells how the totals become right again. A record that was not finished is before no
cursor and is never seen; one that was taken but not released is taken again, unless it is discarded.
"""

from __future__ import annotations

import contextlib
import mmap
import os
from typing import NamedTuple

import msgspec

from talkwire_pipeline.connector import layout
from talkwire_pipeline.connector.layout import COUNTS, DATA_AT, POSITIONS, RECORD_HEADER_WORDS
from talkwire_pipeline.connector.tally import Tally
from talkwire_pipeline.errors import InternalError, InvalidArgumentError


class RingFds(msgspec.Struct, frozen=True):
    """The descriptors of a ring: its memory, and the eventfds that say `data came` and `space came back`."""

    memory: int
    data: int
    space: int


class Ring:
    """The memory and the descriptors; owns all three. Made by `create` or `attach`.

    Attributes:
        fds: to be passed on to other processes.
        name: for error messages.
        capacity_bytes: of the data.
        max_payload_bytes: of one record. Half the ring: so much fits an empty one wherever its cursor stands.
        memory: all of it as bytes.
        words: the same as words of 8 bytes; a store of one is atomic (one by `struct.pack_into` is not).
    """

    def __init__(self, fds: RingFds, name: str) -> None:
        self.fds = fds
        self.name = name
        self.memory = memoryview(mmap.mmap(fds.memory, 0))
        self.words = self.memory.cast("Q")
        self.capacity_bytes = self.words[layout.CAPACITY_AT] * layout.WORD_BYTES
        self.max_payload_bytes = self.capacity_bytes // 2 - layout.RECORD_HEADER_BYTES

    @classmethod
    def create(cls, capacity_bytes: int, name: str = "") -> Ring:
        """A new, empty ring.

        Args:
            capacity_bytes: of the data; rounded up to a power of two of at least one page.
            name: for error messages, and what the kernel shows for the memory.

        Raises `InvalidArgumentError` for a capacity that no ring can have, `OSError` where the system is out of
        memory or descriptors.
        """
        if not 0 < capacity_bytes <= layout.MAX_CAPACITY_BYTES:
            limits = f"it must be at least 1 and at most {layout.MAX_CAPACITY_BYTES}"
            raise InvalidArgumentError("capacity_bytes", f"{capacity_bytes} is out of range: {limits}")
        capacity = layout.capacity_words(capacity_bytes)
        with contextlib.ExitStack() as on_error:
            fds = _new_fds(f"talkwire-{name}", on_error)
            os.ftruncate(fds.memory, (DATA_AT + capacity) * layout.WORD_BYTES)
            with mmap.mmap(fds.memory, mmap.PAGESIZE) as header, memoryview(header).cast("Q") as words:
                words[layout.CAPACITY_AT] = capacity
                words[layout.MAGIC_AT] = layout.MAGIC
            ring = cls(fds, name)
            on_error.pop_all()
        return ring

    @classmethod
    def attach(cls, fds: RingFds, name: str = "") -> Ring:
        """The ring behind inherited descriptors, which it takes over. Raises `InternalError` if there is none."""
        size = os.fstat(fds.memory).st_size
        if size > mmap.PAGESIZE:
            ring = cls(fds, name)
            expected = DATA_AT * layout.WORD_BYTES + ring.capacity_bytes
            if ring.words[layout.MAGIC_AT] == layout.MAGIC and size == expected:
                return ring
        raise InternalError(f"{name}: descriptor {fds.memory} holds no ring")

    def writer(self) -> RingWriter:
        """The writing end; there may be one among all processes."""
        return RingWriter(self)

    def reader(self) -> RingReader:
        """The reading end; there may be one among all processes."""
        return RingReader(self)

    def close(self) -> None:
        """Closes the descriptors and lets go of the memory, which goes when its last view goes. Idempotent."""
        if self.fds.memory < 0:
            return
        for fd in (self.fds.memory, self.fds.data, self.fds.space):
            os.close(fd)
        self.fds = RingFds(memory=-1, data=-1, space=-1)
        self.words = self.memory = memoryview(b"")  # the mapping goes with the last reference to it


def _new_fds(name: str, on_error: contextlib.ExitStack) -> RingFds:
    memory = os.memfd_create(name)
    on_error.callback(os.close, memory)
    data = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
    on_error.callback(os.close, data)
    space = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
    on_error.callback(os.close, space)
    return RingFds(memory=memory, data=data, space=space)


class RingWriter:
    """Appends records. `reserve`, fill, `commit`; nothing of it is seen before `commit`."""

    def __init__(self, ring: Ring) -> None:
        self._words = ring.words
        self._memory = ring.memory
        self._capacity = ring.capacity_bytes // layout.WORD_BYTES
        self._data = Tally(ring.fds.data, COUNTS)
        self._space = Tally(ring.fds.space, POSITIONS)
        self._count, self._head = layout.unpack_cursor(self._words[layout.HEAD_AT])
        self._freed = self._words[layout.FREED_AT]
        self._start = self._payload_bytes = 0
        self._data.announce(self._count, hello=True)

    @property
    def fileno(self) -> int:
        """Readable when space came back; `collect` makes it unreadable again."""
        return self._space.fd

    @property
    def used_bytes(self) -> int:
        """Bytes that may not be reused yet, as far as is known here."""
        return (self._head - self._freed) % POSITIONS * layout.WORD_BYTES

    def collect(self) -> None:
        """Takes back the space that was freed."""
        freed, asked = self._space.follow(self._freed)
        if freed != self._freed:
            _, tail = layout.unpack_cursor(self._words[layout.TAIL_AT])
            self._freed = self._words[layout.FREED_AT] = layout.at_most(freed, tail, POSITIONS)
        if asked:  # a new reader, which does not know how many signals the last one had read
            self._data.announce(self._count)

    def reserve(self, payload_bytes: int) -> memoryview | None:
        """Where to write the payload of the next record, 8-byte aligned; None: no room now.

        `payload_bytes` is at most the ring's `max_payload_bytes`. Replaces a reservation that was not committed.
        """
        need = RECORD_HEADER_WORDS + layout.words_of(payload_bytes)
        if not self._place(need):
            self.collect()
            if not self._place(need):
                return None
        self._payload_bytes = payload_bytes
        first = (self._index(self._start) + RECORD_HEADER_WORDS) * layout.WORD_BYTES
        return self._memory[first : first + payload_bytes]

    def _place(self, need: int) -> bool:
        filler = layout.filler_before(self._head, need, self._capacity)
        if (self._head - self._freed) % POSITIONS + filler + need > self._capacity:
            return False
        if filler:
            self._words[self._index(self._head)] = layout.FILLER
        self._start = (self._head + filler) % POSITIONS
        return True

    def _index(self, position: int) -> int:
        return DATA_AT + position % self._capacity

    def commit(self, kind: int, generation: int, sent_ns: int) -> None:
        """Makes the reserved record, whose payload is filled, visible. `kind` is not 0."""
        words = self._words
        at = self._index(self._start)
        count = (self._count + 1) % COUNTS
        words[at] = kind | self._payload_bytes << 32
        words[at + 1] = generation
        words[at + 2] = count
        words[at + 3] = sent_ns
        self._count = count  # only now: a number that is no word has left the ring as it was
        self._head = (self._start + RECORD_HEADER_WORDS + layout.words_of(self._payload_bytes)) % POSITIONS
        words[layout.HEAD_AT] = layout.pack_cursor(self._count, self._head)
        self._data.add(1)
        # Last, not first: a new reader whose hello is not seen here has said it after the cursor was stored, and so
        # it finds this record by the cursor.
        self.collect()


class Record(NamedTuple):
    """A record as it lies in the ring. `payload` is read-only and valid until the record is released."""

    kind: int
    generation: int
    sequence: int
    sent_ns: int
    payload: memoryview


class RingReader:
    """Takes records in order: `collect`, then `take` and `release` by turns."""

    def __init__(self, ring: Ring) -> None:
        self._name = ring.name
        self._words = ring.words
        self._memory = ring.memory.toreadonly()
        self._capacity = ring.capacity_bytes // layout.WORD_BYTES
        self._data = Tally(ring.fds.data, COUNTS)
        self._space = Tally(ring.fds.space, POSITIONS)
        self._count, self._tail = layout.unpack_cursor(self._words[layout.TAIL_AT])
        self._signalled = self._words[layout.SIGNALLED_AT]
        self._held = self._end = -1  # of the record that is out: its sequence, the position behind it
        self._space.announce(self._tail, hello=True)
        self.rearm()

    @property
    def fileno(self) -> int:
        """Readable when records came; `collect` makes it unreadable again."""
        return self._data.fd

    @property
    def available(self) -> int:
        """Records that were collected and not yet released."""
        return layout.distance(self._signalled, self._count, COUNTS)

    @property
    def used_bytes(self) -> int:
        """Bytes that wait to be read or released."""
        _, head = layout.unpack_cursor(self._words[layout.HEAD_AT])
        return (head - self._tail) % POSITIONS * layout.WORD_BYTES

    def collect(self) -> int:
        """Reads the wake-up; returns `available`."""
        signalled, asked = self._data.follow(self._signalled)
        if signalled != self._signalled:
            count, _ = layout.unpack_cursor(self._words[layout.HEAD_AT])
            self._signalled = self._words[layout.SIGNALLED_AT] = layout.at_most(signalled, count, COUNTS)
        if asked:  # a new writer, which does not know what the last one had taken back
            self._space.announce(self._tail)
        return self.available

    def rearm(self) -> None:
        """Makes `fileno` readable again if collected records are left: nobody would be woken for them."""
        if self.available:
            self._data.nudge()

    def take(self) -> Record | None:
        """The oldest collected record, again until it is released. None: there is none.

        Raises `InternalError` if the ring's content makes no sense.
        """
        if not self.available:
            return None
        start, at = self._tail, DATA_AT + self._tail % self._capacity
        if self._words[at] == layout.FILLER:
            start, at = start + DATA_AT + self._capacity - at, DATA_AT
        first, generation, sequence, sent_ns = self._words[at : at + RECORD_HEADER_WORDS].tolist()
        kind, size = first & 0xFFFFFFFF, first >> 32
        if sequence != (self._count + 1) % COUNTS:
            raise InternalError(f"{self._name}: the ring is damaged: record {sequence} comes after {self._count}")
        self._held = sequence
        self._end = (start + RECORD_HEADER_WORDS + layout.words_of(size)) % POSITIONS
        payload = (at + RECORD_HEADER_WORDS) * layout.WORD_BYTES
        return Record(kind, generation, sequence, sent_ns, self._memory[payload : payload + size])

    def release(self, record: Record) -> None:
        """Gives the record's space back; nothing if that has happened."""
        if record.sequence == self._held:
            self._advance(record.sequence, self._end)

    def discard(self) -> int:
        """Gives back all that is there, the record that is out included; returns the number of records."""
        self.collect()
        count, head = layout.unpack_cursor(self._words[layout.HEAD_AT])
        dropped = (count - self._count) % COUNTS
        if dropped:
            self._advance(count, head)  # signals that are still to come for these are behind the count: no matter
        return dropped

    def close(self) -> None:
        """Touches the ring no more: what an open iterator still calls does nothing."""
        self._signalled, self._held = self._count, -1

    def _advance(self, count: int, position: int) -> None:
        freed = (position - self._tail) % POSITIONS
        self._count, self._tail, self._held = count, position, -1
        self._words[layout.TAIL_AT] = layout.pack_cursor(count, position)
        self._space.add(freed)
