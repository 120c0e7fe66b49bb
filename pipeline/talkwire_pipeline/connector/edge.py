"""The two ends of an edge: messages over a ring."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from talkwire_pipeline.connector.codec import Decoder, Encoder, Received
from talkwire_pipeline.connector.ring import Ring
from talkwire_pipeline.messages import Message


@dataclass(slots=True)
class EdgeCounters:
    """What went over one end.

    Attributes:
        messages: how many.
        bytes: how many, heads included.
        stalls: how often there was no room.
        high_water_bytes: the most that the ring ever held, as this end saw it.
    """

    messages: int = 0
    bytes: int = 0
    stalls: int = 0
    high_water_bytes: int = 0

    def count(self, size: int, used: int) -> None:
        """One message of `size` bytes, in a ring that holds `used`."""
        self.messages += 1
        self.bytes += size
        self.high_water_bytes = max(self.high_water_bytes, used)


class Sender:
    """The writing end. One for each process and edge; closing it closes the ring.

    Attributes:
        counters: what was sent.
        max_message_bytes: a larger message can never be sent.
    """

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self._writer = ring.writer()
        self._encoder = Encoder()
        self.counters = EdgeCounters()
        self.max_message_bytes = self._writer.max_record_bytes

    @property
    def fileno(self) -> int:
        """Readable when freed space came back."""
        return self._writer.fileno

    def send(self, message: Message) -> bool:
        """Sends without blocking. False: there is no room now, and nothing was written.

        Raises `ValueError` for a message that is larger than the edge can ever take.
        """
        parts, size = self._encoder.encode(message)
        if size > self.max_message_bytes:
            raise ValueError(
                f"{type(message).__name__} of {size} bytes: edge {self._ring.name!r} takes {self.max_message_bytes}; "
                "raise its capacity_bytes"
            )
        if not self._writer.write(parts, size):
            self.counters.stalls += 1
            return False
        self._encoder.sent()
        self.counters.count(size, self._writer.used)
        return True

    def acknowledge(self) -> None:
        """Takes back freed space, and makes `fileno` quiet until more comes."""
        self._writer.reclaim()

    def close(self) -> None:
        """Closes the ring in this process."""
        self._ring.close()


class Receiver:
    """The reading end. One for each process and edge; closing it closes the ring.

    Attributes:
        counters: what was received.
    """

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self._reader = ring.reader()
        self._decoder = Decoder()
        self.counters = EdgeCounters()

    @property
    def fileno(self) -> int:
        """Readable when messages came."""
        return self._reader.fileno

    def receive(self) -> Iterator[Received]:
        """All messages that are there. Read it to its end: `fileno` speaks up again only for what comes later.

        Arrays are views into the ring; the space goes back when the next message is asked for.
        """
        while (record := self._reader.next()) is not None:
            self.counters.count(len(record), self._ring.used)
            try:
                yield self._decoder.decode(record)
            finally:
                self._reader.free(record)

    def discard(self) -> int:
        """Drops all that is there; how many bytes."""
        return self._reader.discard()

    def close(self) -> None:
        """Closes the ring in this process."""
        self._ring.close()


def attach_reader(
    loop: asyncio.AbstractEventLoop, receiver: Receiver, take: Callable[[Received], None]
) -> Callable[[], None]:
    """Lets `loop` call `take` for every message that comes. The result ends that."""

    def drain() -> None:
        for received in receiver.receive():
            take(received)

    loop.add_reader(receiver.fileno, drain)

    def detach() -> None:
        loop.remove_reader(receiver.fileno)

    return detach
