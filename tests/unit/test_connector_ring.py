"""The ring with both its ends in one process, and ends that are killed at any system call and replaced."""

from __future__ import annotations

import contextlib
import mmap
import os
import select
from collections.abc import Callable, Iterator
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from talkwire_pipeline.connector import layout
from talkwire_pipeline.connector.ring import Record, Ring, RingFds, RingReader, RingWriter
from talkwire_pipeline.errors import InternalError, InvalidArgumentError

CAPACITY = mmap.PAGESIZE


@pytest.fixture
def ring() -> Iterator[Ring]:
    ring = Ring.create(CAPACITY, "test")
    yield ring
    ring.close()


def content(sequence: int, size: int) -> bytes:
    return Random(sequence).randbytes(size)


def write(writer: RingWriter, sequence: int, size: int) -> bool:
    payload = writer.reserve(size)
    if payload is None:
        return False
    payload[:] = content(sequence, size)
    writer.commit(kind=1, generation=size, sent_ns=sequence)
    return True


def check(record: Record) -> None:
    assert record.payload.readonly
    assert record.generation == len(record.payload)
    assert record.payload == content(record.sequence, record.generation)


def drain(reader: RingReader) -> list[int]:
    """Takes and releases all that is there; the sequence numbers."""
    taken = []
    for _ in range(reader.collect()):
        record = reader.take()
        assert record is not None
        check(record)
        taken.append(record.sequence)
        reader.release(record)
    return taken


def readable(fd: int) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(0))


def settle(writer: RingWriter, reader: RingReader) -> None:
    """Lets both hear each other's hello."""
    for _ in range(2):
        writer.collect()
        reader.collect()


# ---- a quiet life


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, CAPACITY // 2 - 32), st.booleans()), max_size=60))
def test_nothing_is_lost_reordered_or_torn(steps: list[tuple[int, bool]]) -> None:
    with contextlib.closing(Ring.create(CAPACITY)) as ring:
        writer, reader = ring.writer(), ring.reader()
        sent: list[int] = []
        taken: list[int] = []
        for size, read in steps:
            if write(writer, len(sent) + 1, size):
                sent.append(len(sent) + 1)
            if read:
                taken += drain(reader)
            assert reader.used_bytes <= writer.used_bytes <= CAPACITY
        taken += drain(reader)
        assert taken == sent
        writer.collect()
        assert writer.used_bytes == reader.used_bytes == 0


def test_a_full_ring_takes_no_more_until_space_came_back(ring: Ring) -> None:
    writer, reader = ring.writer(), ring.reader()
    sent = 0
    while write(writer, sent + 1, 96):
        sent += 1
    assert sent == CAPACITY // 128
    assert writer.used_bytes == CAPACITY
    assert not readable(writer.fileno)
    assert reader.collect() == sent
    record = reader.take()
    assert record is not None
    assert writer.reserve(0) is None
    reader.release(record)
    assert readable(writer.fileno)
    assert write(writer, sent + 1, 96)
    assert not write(writer, sent + 2, 0)
    assert drain(reader) == list(range(2, sent + 2))


@pytest.mark.parametrize("before", range(0, CAPACITY, 264))
def test_the_largest_record_fits_an_empty_ring_anywhere(ring: Ring, before: int) -> None:
    writer, reader = ring.writer(), ring.reader()
    sequence = 0
    while before:
        step = min(before, 264)
        sequence += 1
        assert write(writer, sequence, step - layout.RECORD_HEADER_BYTES)
        drain(reader)
        before -= step
    assert write(writer, sequence + 1, ring.max_payload_bytes)
    assert drain(reader) == [sequence + 1]


def test_what_is_skipped_at_the_end_needs_room_too(ring: Ring) -> None:
    writer, reader = ring.writer(), ring.reader()
    quarter = CAPACITY // 4 - layout.RECORD_HEADER_BYTES
    for sequence in (1, 2, 3):
        assert write(writer, sequence, quarter)
    reader.collect()
    first = reader.take()
    assert first is not None
    reader.release(first)
    assert not write(writer, 4, CAPACITY * 3 // 8 - layout.RECORD_HEADER_BYTES)
    assert write(writer, 4, quarter)
    assert write(writer, 5, quarter)
    assert drain(reader) == [2, 3, 4, 5]


def test_one_is_signalled_for_each_record(ring: Ring) -> None:
    writer, reader = ring.writer(), ring.reader()
    settle(writer, reader)
    for sequence in (1, 2, 3):
        assert write(writer, sequence, 8)
    assert os.eventfd_read(ring.fds.data) == 3
    assert reader.collect() == 0, "no more is taken than was read from the eventfd"
    assert reader.take() is None


def test_freed_words_are_signalled_once_for_each_record(ring: Ring) -> None:
    writer, reader = ring.writer(), ring.reader()
    settle(writer, reader)
    for sequence in (1, 2):
        assert write(writer, sequence, 10)
    drain(reader)
    assert os.eventfd_read(ring.fds.space) == 2 * (4 + 2)


def test_a_reservation_alone_is_not_seen(ring: Ring) -> None:
    writer, reader = ring.writer(), ring.reader()
    settle(writer, reader)
    assert writer.reserve(100) is not None
    assert not readable(reader.fileno)
    assert write(writer, 1, 20)
    assert drain(reader) == [1]


def test_an_idle_ring_wakes_nobody(ring: Ring) -> None:
    writer, reader = ring.writer(), ring.reader()
    settle(writer, reader)
    assert write(writer, 1, 8)
    assert readable(reader.fileno)
    assert drain(reader) == [1]
    writer.collect()
    assert not readable(reader.fileno)
    assert not readable(writer.fileno)


def test_discard_drops_what_is_there_and_gives_the_space_back(ring: Ring) -> None:
    writer, reader = ring.writer(), ring.reader()
    for sequence in (1, 2, 3):
        assert write(writer, sequence, 500)
    reader.collect()
    held = reader.take()
    assert held is not None
    assert reader.discard() == 3
    reader.release(held)
    assert reader.discard() == 0
    writer.collect()
    assert writer.used_bytes == 0
    assert write(writer, 4, 8)
    assert drain(reader) == [4]


def test_records_that_were_collected_but_not_taken_wake_again(ring: Ring) -> None:
    writer, reader = ring.writer(), ring.reader()
    for sequence in (1, 2):
        assert write(writer, sequence, 8)
    reader.collect()
    assert not readable(reader.fileno)
    reader.rearm()
    assert readable(reader.fileno)
    assert drain(reader) == [1, 2]
    reader.rearm()
    assert not readable(reader.fileno)


def test_cursors_wrap(ring: Ring) -> None:
    near = layout.pack_cursor(layout.COUNTS - 2, layout.POSITIONS - 8)
    ring.words[layout.HEAD_AT] = ring.words[layout.TAIL_AT] = near
    ring.words[layout.FREED_AT] = layout.POSITIONS - 8
    writer, reader = ring.writer(), ring.reader()
    sequences = [(layout.COUNTS - 1 + n) % layout.COUNTS for n in range(100)]
    for sequence in sequences:
        assert write(writer, sequence, 40)
        assert drain(reader) == [sequence]
    settle(writer, reader)
    assert writer.used_bytes == reader.used_bytes == 0


def test_a_damaged_ring_is_an_error(ring: Ring) -> None:
    writer, reader = ring.writer(), ring.reader()
    assert write(writer, 1, 8)
    ring.words[layout.DATA_AT + 2] = 7
    reader.collect()
    with pytest.raises(InternalError, match="test: the ring is damaged: record 7 comes after 0"):
        reader.take()


# ---- descriptors


def descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


def test_closing_gives_all_descriptors_back() -> None:
    before = descriptors()
    ring = Ring.create(CAPACITY)
    assert len(descriptors() - before) >= 3
    ring.close()
    ring.close()
    assert descriptors() == before


def test_a_view_outlives_the_ring() -> None:
    before = descriptors()
    ring = Ring.create(CAPACITY)
    writer, reader = ring.writer(), ring.reader()
    assert write(writer, 1, 100)
    reader.collect()
    record = reader.take()
    assert record is not None
    ring.close()
    check(record)
    del record, reader, writer
    assert descriptors() == before


def test_two_ends_attached_to_the_same_descriptors() -> None:
    ring = Ring.create(CAPACITY)
    fds = RingFds(*(os.dup(fd) for fd in (ring.fds.memory, ring.fds.data, ring.fds.space)))
    other = Ring.attach(fds, "other")
    writer, reader = ring.writer(), other.reader()
    assert write(writer, 1, 100)
    assert drain(reader) == [1]
    other.close()
    ring.close()


def test_the_memory_has_no_name_in_the_file_system() -> None:
    before = os.listdir("/dev/shm")
    ring = Ring.create(CAPACITY, "edge")
    assert os.readlink(f"/proc/self/fd/{ring.fds.memory}") == "/memfd:talkwire-edge (deleted)"
    assert os.listdir("/dev/shm") == before
    ring.close()


@pytest.mark.parametrize("capacity_bytes", [0, -1, layout.MAX_CAPACITY_BYTES + 1])
def test_an_impossible_capacity_is_refused(capacity_bytes: int) -> None:
    before = descriptors()
    with pytest.raises(InvalidArgumentError, match=f"capacity_bytes: {capacity_bytes} is out of range"):
        Ring.create(capacity_bytes)
    assert descriptors() == before


def empty_file() -> int:
    return os.memfd_create("other")


def foreign_file() -> int:
    fd = empty_file()
    os.ftruncate(fd, 2 * mmap.PAGESIZE)
    return fd


@pytest.mark.parametrize("memory", [empty_file, foreign_file])
def test_what_is_no_ring_is_refused(memory: Callable[[], int], ring: Ring) -> None:
    fd = memory()
    with pytest.raises(InternalError, match=f"codes: descriptor {fd} holds no ring"):
        Ring.attach(RingFds(fd, ring.fds.data, ring.fds.space), "codes")
    os.close(fd)


# ---- a life with deaths


class KilledError(BaseException):
    """Where a process would have been killed."""


def kill() -> None:
    raise KilledError


class Fuse:
    """Does something, kills above all, before or after one of the coming system calls."""

    def __init__(self) -> None:
        self.patch = pytest.MonkeyPatch()
        self.left = -1
        self.act: Callable[[], None] = kill
        for name in ("eventfd_read", "eventfd_write"):
            self.patch.setattr(os, name, self._burning(getattr(os, name)))

    def _burning(self, call: Callable[..., int]) -> Callable[..., int]:
        def burning(*arguments: int) -> int:
            self._burn()
            try:
                return call(*arguments)
            finally:
                self._burn()

        return burning

    def _burn(self) -> None:
        self.left -= 1
        if self.left == 0:
            self.act()

    @contextlib.contextmanager
    def lit(self, length: int) -> Iterator[None]:
        """Runs the block until the fuse is down; it may end before."""
        self.left = length
        try:
            yield
        finally:
            self.left = -1


@pytest.fixture
def fuse() -> Iterator[Fuse]:
    fuse = Fuse()
    yield fuse
    fuse.patch.undo()


def prepared(ring: Ring) -> tuple[RingWriter, RingReader]:
    """Both ends, with one record on its way and the space of two others on its way back."""
    writer, reader = ring.writer(), ring.reader()
    settle(writer, reader)
    for sequence in (1, 2):
        assert write(writer, sequence, 100)
    assert drain(reader) == [1, 2]
    assert writer.used_bytes > reader.used_bytes == 0
    payload = writer.reserve(10)
    assert payload is not None
    payload[:] = content(3, 10)
    return writer, reader


POINTS = range(1, 13)


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("again", POINTS)
def test_a_writer_killed_at_any_point_is_replaced(ring: Ring, fuse: Fuse, point: int, again: int) -> None:
    writer, reader = prepared(ring)
    with contextlib.suppress(KilledError), fuse.lit(point):
        writer.commit(1, 10, 3)
        write(writer, 4, 300)
    committed = layout.unpack_cursor(ring.words[layout.HEAD_AT])[0]
    with contextlib.suppress(KilledError), fuse.lit(again):
        ring.writer()
    writer = ring.writer()
    assert drain(reader) == list(range(3, committed + 1)), "the reader need not wait for the next record"
    writer.collect()
    assert writer.used_bytes == 0
    assert write(writer, committed + 1, ring.max_payload_bytes)
    assert drain(reader) == [committed + 1]


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("again", POINTS)
def test_a_reader_killed_at_any_point_is_replaced(ring: Ring, fuse: Fuse, point: int, again: int) -> None:
    writer, reader = prepared(ring)
    writer.commit(1, 10, 3)
    assert write(writer, 4, 300)
    with contextlib.suppress(KilledError), fuse.lit(point):
        drain(reader)
    taken = layout.unpack_cursor(ring.words[layout.TAIL_AT])[0]
    with contextlib.suppress(KilledError), fuse.lit(again):
        ring.reader()
    reader = ring.reader()
    assert write(writer, 5, 1)
    assert drain(reader) == list(range(taken + 1, 6))
    writer.collect()
    assert writer.used_bytes == 0


@pytest.mark.parametrize("point", POINTS)
def test_a_new_reader_discards_and_gets_what_comes_then(ring: Ring, fuse: Fuse, point: int) -> None:
    writer, reader = prepared(ring)
    writer.commit(1, 10, 3)
    with contextlib.suppress(KilledError), fuse.lit(point):
        drain(reader)
    reader = ring.reader()
    reader.discard()
    assert write(writer, 4, 1)
    assert readable(reader.fileno)
    assert drain(reader) == [4]


@pytest.mark.parametrize("point", POINTS)
def test_a_record_that_is_sent_while_a_reader_discards_is_dropped_or_comes(ring: Ring, fuse: Fuse, point: int) -> None:
    writer, _ = prepared(ring)
    readers: list[RingReader] = []

    def replace() -> None:
        fuse.left = -1
        readers.append(ring.reader())
        readers[0].discard()

    fuse.act = replace
    with fuse.lit(point):
        writer.commit(1, 10, 3)
    reader = readers[0] if readers else ring.reader()
    dropped = layout.unpack_cursor(ring.words[layout.TAIL_AT])[0]
    assert drain(reader) == list(range(dropped + 1, 4)), "without another look of the writer"
    assert write(writer, 4, 1)
    assert drain(reader) == [4]


def test_a_new_reader_is_woken_for_what_the_last_one_had_collected(ring: Ring) -> None:
    writer, reader = prepared(ring)
    writer.commit(1, 10, 3)
    assert reader.collect() == 1
    reader = ring.reader()
    assert readable(reader.fileno)
    assert drain(reader) == [3]


def test_a_new_writer_goes_by_what_the_last_one_had_collected(ring: Ring) -> None:
    writer, _ = prepared(ring)
    writer.collect()
    assert ring.writer().used_bytes == 0, "also while no reader answers"


def test_freed_space_is_not_counted_twice_by_a_new_writer(ring: Ring) -> None:
    _, reader = prepared(ring)
    writer = ring.writer()
    assert writer.used_bytes > 0
    writer.collect()
    assert writer.used_bytes == 0
    reader.collect()
    writer.collect()
    assert writer.used_bytes == 0


fuses = st.integers(1, 12)


class Deaths(RuleBasedStateMachine):
    """A writer and a reader, each of which dies now and then and is replaced on the same ring."""

    def __init__(self) -> None:
        super().__init__()
        self.fuse = Fuse()
        self.ring = Ring.create(CAPACITY)
        self.reader_told = True  # since the present reader came, the writer has looked at what it said
        self.writer_told = True  # the other way round
        self.next = 1  # that is to be taken
        self.writer = self.ring.writer()
        self.reader = self.ring.reader()

    def teardown(self) -> None:
        self.fuse.patch.undo()
        self.ring.close()

    @property
    def committed(self) -> int:
        return layout.unpack_cursor(self.ring.words[layout.HEAD_AT])[0]

    def new_writer(self, length: int = 0) -> None:
        self.writer_told = False
        with contextlib.suppress(KilledError), self.fuse.lit(length):
            self.writer = self.ring.writer()
            self.reader_told = True  # it says its total by itself
            return
        self.new_writer()

    def new_reader(self, length: int = 0) -> None:
        self.reader_told = False
        with contextlib.suppress(KilledError), self.fuse.lit(length):
            self.reader = self.ring.reader()
            self.writer_told = True
            return
        self.new_reader()

    @rule(size=st.integers(0, CAPACITY // 2 - 32))
    def write(self, size: int) -> None:
        if write(self.writer, self.committed + 1, size):
            self.reader_told = True

    @rule(sizes=st.lists(st.integers(0, 300), min_size=1, max_size=4), length=fuses, again=fuses)
    def write_and_die(self, sizes: list[int], length: int, again: int) -> None:
        with contextlib.suppress(KilledError), self.fuse.lit(length):
            for size in sizes:
                write(self.writer, self.committed + 1, size)
            self.writer.reserve(50)
        self.new_writer(again)

    @rule()
    def read(self) -> None:
        self.take_all()
        self.writer_told = True

    @rule(length=fuses, again=fuses)
    def read_and_die(self, length: int, again: int) -> None:
        with contextlib.suppress(KilledError), self.fuse.lit(length):
            self.take_all()
        self.new_reader(again)
        self.next = layout.unpack_cursor(self.ring.words[layout.TAIL_AT])[0] + 1

    @rule(length=fuses, again=fuses)
    def die_and_discard(self, length: int, again: int) -> None:
        self.read_and_die(length, again)
        self.reader.discard()
        self.writer_told = True
        self.next = self.committed + 1

    @precondition(lambda self: self.reader_told)
    @rule()
    def all_that_was_committed_can_be_taken(self) -> None:
        self.take_all()
        self.writer_told = True
        assert self.next == self.committed + 1

    @precondition(lambda self: self.writer_told)
    @rule()
    def all_that_was_freed_can_be_used(self) -> None:
        self.writer.collect()
        self.reader_told = True
        assert self.writer.used_bytes == self.reader.used_bytes

    def take_all(self) -> None:
        for _ in range(self.reader.collect()):
            record = self.reader.take()
            assert record is not None
            check(record)
            assert record.sequence == self.next
            self.reader.release(record)
            self.next += 1

    @invariant()
    def no_more_is_signalled_than_was_committed(self) -> None:
        assert self.next + self.reader.available <= self.committed + 1

    @invariant()
    def no_more_is_reused_than_was_freed(self) -> None:
        assert self.reader.used_bytes <= self.writer.used_bytes <= CAPACITY

    @invariant()
    def who_waits_is_woken(self) -> None:
        """A reader that waits for its descriptor now would not sleep beside records that it could take."""
        if self.reader_told and self.committed >= self.next:
            assert readable(self.reader.fileno)


Deaths.TestCase.settings = settings(max_examples=300, stateful_step_count=25, deadline=None)
TestDeaths = Deaths.TestCase
