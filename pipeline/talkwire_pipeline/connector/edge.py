"""The two ends of an edge between processes: messages in, messages out. Neither end ever waits.

Who owns the loop waits on `fileno`: `select.poll` over several of them, or `loop.add_reader` of asyncio.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from talkwire_pipeline.connector import codec
from talkwire_pipeline.connector.layout import RECORD_HEADER_BYTES
from talkwire_pipeline.connector.ring import Record, Ring, RingReader, RingWriter
from talkwire_pipeline.errors import InternalError
from talkwire_pipeline.messages import Message


@dataclass(slots=True)
class EdgeCounters:
    """What went through one end of an edge, in this process.

    Attributes:
        messages: sent, or received (discarded ones are not).
        bytes: of these, with headers.
        stalls: how often the edge became too full for a message; always 0 at the receiver.
        stalled_ns: for how long it was, in all; always 0 at the receiver.
        waited_ns: from sending to receiving, of all messages together; always 0 at the sender.
        used_bytes: of the ring, when it was last looked at.
        high_water_bytes: the most of them so far.
    """

    messages: int = 0
    bytes: int = 0
    stalls: int = 0
    stalled_ns: int = 0
    waited_ns: int = 0
    used_bytes: int = 0
    high_water_bytes: int = 0

    def count(self, payload_bytes: int) -> None:
        """One more message."""
        self.messages += 1
        self.bytes += payload_bytes + RECORD_HEADER_BYTES

    def occupy(self, used_bytes: int) -> None:
        """Notes how full the ring is."""
        self.used_bytes = used_bytes
        self.high_water_bytes = max(self.high_water_bytes, used_bytes)


class Sender:
    """The writing end. One per edge among all processes, used from one thread.

    Attributes:
        counters: what was sent.
        capacity_bytes: of the ring.
        max_message_bytes: the largest message that can be sent, header included.
    """

    def __init__(self, ring: Ring) -> None:
        self.counters = EdgeCounters()
        self.capacity_bytes = ring.capacity_bytes
        self.max_message_bytes = ring.max_payload_bytes + RECORD_HEADER_BYTES
        self._name = ring.name
        self._ring: RingWriter | None = ring.writer()
        self._stalled_at_ns = 0

    @property
    def _writer(self) -> RingWriter:
        if self._ring is None:
            raise InternalError(f"{self._name}: this end of the edge is closed")
        return self._ring

    @property
    def fileno(self) -> int:
        """Readable when space came back; `acknowledge` makes it unreadable again."""
        return self._writer.fileno

    def send(self, message: Message) -> bool:
        """Sends. False: there is no room now and nothing was written; try again when `fileno` is readable.

        Raises `InternalError` for a message that is too large, or that holds an array of the wrong dtype.
        """
        writer = self._writer
        encoded = codec.encode(message)
        size = encoded.size + RECORD_HEADER_BYTES
        if size > self.max_message_bytes:
            raise InternalError(self._too_large(message, size), reason="MESSAGE_TOO_LARGE")
        payload, now_ns = writer.reserve(encoded.size), time.monotonic_ns()
        if payload is None:
            self._stall(now_ns)
            return False
        encoded.write_to(payload)
        writer.commit(message.kind, message.generation, now_ns)
        self.counters.count(encoded.size)
        self.counters.occupy(writer.used_bytes)
        if self._stalled_at_ns:
            self.counters.stalled_ns += now_ns - self._stalled_at_ns
            self._stalled_at_ns = 0
        return True

    def _stall(self, now_ns: int) -> None:
        if not self._stalled_at_ns:
            self.counters.stalls += 1
            self._stalled_at_ns = now_ns

    def _too_large(self, message: Message, size: int) -> str:
        what = f"{self._name}: {type(message).__name__} of {size} bytes is too large"
        return f"{what}: one message may take half the ring, so capacity_bytes must be at least {2 * size}"

    def acknowledge(self) -> None:
        """Takes back the space that was freed. `send` does it too where it needs the space."""
        writer = self._writer
        writer.collect()
        self.counters.occupy(writer.used_bytes)

    def close(self) -> None:
        """Lets go of the ring, which stays its owner's. Idempotent."""
        self._ring = None

    def stats(self) -> dict[str, float]:
        """Figures of this end by name; the edge's own name is in them."""
        counted, head = self.counters, f"edge:{self._name}"
        return {
            f"{head}:messages_total": counted.messages,
            f"{head}:bytes_total": counted.bytes,
            f"{head}:stalls_total": counted.stalls,
            f"{head}:stall_seconds_total": counted.stalled_ns / 1e9,
            f"{head}:used_ratio": counted.used_bytes / self.capacity_bytes,
            f"{head}:high_water_ratio": counted.high_water_bytes / self.capacity_bytes,
        }


class Received(NamedTuple):
    """A message with its number on the edge, counted from 1, and when it was sent (`time.monotonic_ns`)."""

    message: Message
    sequence: int
    sent_ns: int


class Receiver:
    """The reading end. One per edge among all processes, used from one thread.

    Attributes:
        counters: what was received.
    """

    def __init__(self, ring: Ring) -> None:
        self.counters = EdgeCounters()
        self._name = ring.name
        self._ring: RingReader | None = ring.reader()

    @property
    def _reader(self) -> RingReader:
        if self._ring is None:
            raise InternalError(f"{self._name}: this end of the edge is closed")
        return self._ring

    @property
    def fileno(self) -> int:
        """Readable when messages came; `receive` and `discard` make it unreadable again."""
        return self._reader.fileno

    def receive(self) -> Iterator[Received]:
        """The messages that are there now, in order; none: nothing came. Never waits.

        The arrays of a message are read-only views, valid until the iterator goes on or is closed; then the space
        goes back to the sender. One iterator at a time; what it leaves when it is closed early comes with the next
        call, and `fileno` says so. Raises `InternalError` for a message that cannot be read, which is dropped.
        """
        reader = self._reader
        reader.collect()  # once: a fast sender must not keep the caller from its other work
        self.counters.occupy(reader.used_bytes)
        try:
            while record := reader.take():
                try:
                    yield self._read(record)
                finally:
                    reader.release(record)
        finally:
            reader.rearm()

    def _read(self, record: Record) -> Received:
        message = codec.decode(record.kind, record.generation, record.payload)
        self.counters.count(len(record.payload))
        self.counters.waited_ns += time.monotonic_ns() - record.sent_ns
        return Received(message, record.sequence, record.sent_ns)

    def discard(self) -> int:
        """Drops all that is there, also what an open iterator has not yet delivered; returns how many."""
        return self._reader.discard()

    def stats(self) -> dict[str, float]:
        """Figures of this end by name; the edge's own name is in them."""
        return {f"edge:{self._name}:wait_seconds_total": self.counters.waited_ns / 1e9}

    def close(self) -> None:
        """Lets go of the ring, which stays its owner's. Idempotent."""
        if self._ring is not None:
            self._ring.close()
        self._ring = None
