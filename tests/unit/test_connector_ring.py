"""The ring, with both its ends in one process."""

from __future__ import annotations

import contextlib
import mmap
import os
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.rings import CAPACITY, check, drain, readable, settle, write
from talkwire_pipeline.connector import layout
from talkwire_pipeline.connector.ring import Ring, RingFds
from talkwire_pipeline.errors import InternalError, InvalidArgumentError


@pytest.fixture
def ring() -> Iterator[Ring]:
    ring = Ring.create(CAPACITY, "test")
    yield ring
    ring.close()


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
        assert 0 < reader.used_bytes <= CAPACITY
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


@pytest.mark.parametrize("generation", [-1, 1 << 64])
def test_a_record_that_cannot_be_committed_leaves_the_ring_as_it_was(ring: Ring, generation: int) -> None:
    writer, reader = ring.writer(), ring.reader()
    assert write(writer, 1, 8)
    assert writer.reserve(8) is not None
    with pytest.raises(ValueError, match="format 'Q'"):
        writer.commit(kind=1, generation=generation, sent_ns=2)
    assert write(writer, 2, 30)
    assert drain(reader) == [1, 2]
    writer.collect()
    assert writer.used_bytes == 0


def test_a_signal_too_many_does_no_harm_to_the_reader(ring: Ring) -> None:
    writer, reader = ring.writer(), ring.reader()
    for sequence in range(1, 4):
        assert write(writer, sequence, 8)
        os.eventfd_write(ring.fds.data, 2)
        assert drain(reader) == [sequence]
        os.eventfd_write(ring.fds.data, 1)
        assert drain(reader) == []
        reader.rearm()
        assert not readable(reader.fileno)


def test_more_space_than_was_freed_is_not_used(ring: Ring) -> None:
    writer, reader = ring.writer(), ring.reader()
    assert write(writer, 1, 8)
    assert write(writer, 2, 8)
    reader.collect()
    first = reader.take()
    assert first is not None
    reader.release(first)
    os.eventfd_write(ring.fds.space, 3)
    writer.collect()
    assert writer.used_bytes == reader.used_bytes == layout.RECORD_HEADER_BYTES + 8
    assert drain(reader) == [2]


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


def longer_ring() -> int:
    ring = Ring.create(CAPACITY)
    fd = os.dup(ring.fds.memory)
    ring.close()
    os.ftruncate(fd, 3 * mmap.PAGESIZE)
    return fd


@pytest.mark.parametrize("memory", [empty_file, foreign_file, longer_ring])
def test_what_is_no_ring_is_refused(memory: Callable[[], int], ring: Ring) -> None:
    fd = memory()
    with pytest.raises(InternalError, match=f"codes: descriptor {fd} holds no ring"):
        Ring.attach(RingFds(fd, ring.fds.data, ring.fds.space), "codes")
    os.close(fd)
