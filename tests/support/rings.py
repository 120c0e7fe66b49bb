"""Writing and checking records, with both ends of a ring in one process."""

from __future__ import annotations

import mmap
import select
from random import Random

from talkwire_pipeline.connector.ring import Record, RingReader, RingWriter

CAPACITY = mmap.PAGESIZE
"""Of the smallest ring."""


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
