"""A ring of which one end, at any system call of the other, looks at it or is replaced."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from support.fuse import Fuse, KilledError
from support.rings import CAPACITY, check, content, drain, readable, settle, write
from talkwire_pipeline.connector import layout
from talkwire_pipeline.connector.ring import Ring, RingReader, RingWriter


@pytest.fixture
def ring() -> Iterator[Ring]:
    ring = Ring.create(CAPACITY, "test")
    yield ring
    ring.close()


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


@pytest.mark.parametrize("point", POINTS)
def test_a_reader_that_looks_at_any_point_misses_nothing(ring: Ring, fuse: Fuse, point: int) -> None:
    writer, reader = prepared(ring)
    taken: list[int] = []
    fuse.act = lambda: taken.extend(drain(reader))
    with fuse.lit(point):
        writer.commit(1, 10, 3)
    assert taken + drain(reader) == [3]


@pytest.mark.parametrize("point", POINTS)
def test_a_writer_that_looks_at_any_point_misses_no_space(ring: Ring, fuse: Fuse, point: int) -> None:
    writer, reader = prepared(ring)
    writer.commit(1, 10, 3)
    fuse.act = writer.collect
    with fuse.lit(point):
        assert drain(reader) == [3]
    writer.collect()
    assert writer.used_bytes == 0


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

    @rule()
    def signal_for_no_reason(self) -> None:
        os.eventfd_write(self.ring.fds.data, 1)
        os.eventfd_write(self.ring.fds.space, 8)

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
