"""One end of an edge in a process of its own: `ring_peer.py write|read MEMORY DATA SPACE LAST`.

The writer sends messages up to number LAST, beginning with the first that the ring's cursor has not passed. The
reader checks what comes, up to number LAST; `read-after-discard` drops what is there first. At its end either prints
its counters as JSON. What number a message has decides what is in it.
"""

from __future__ import annotations

import select
import sys
from random import Random

import msgspec
import numpy as np
import numpy.typing as npt

from talkwire_pipeline.connector import layout
from talkwire_pipeline.connector.edge import Receiver, Sender
from talkwire_pipeline.connector.ring import Ring, RingFds
from talkwire_pipeline.messages import Abort, Audio, Message


def samples(number: int, largest: int) -> npt.NDArray[np.float32]:
    """[S] float32, of random length and of values that tell one message from another everywhere."""
    random = Random(number)
    length = random.choice((0, random.randrange(64), random.randrange(largest)))
    return np.arange(number, number + length, dtype=np.float32)


def message(number: int, largest: int) -> Message:
    """The message with this number."""
    if number % 7 == 0:
        return Abort(generation=number)
    return Audio(generation=number, first_sample=number, samples=samples(number, largest))


def check(received: Message, number: int, largest: int) -> None:
    """Raises `AssertionError` for a message that is not whole, or not the one with this number."""
    expected = message(number, largest)
    assert type(received) is type(expected)
    assert received.generation == number
    if isinstance(received, Audio):
        assert isinstance(expected, Audio)
        np.testing.assert_array_equal(received.samples, expected.samples, strict=True)


def largest(ring: Ring) -> int:
    """Samples of the largest message."""
    return (ring.max_payload_bytes - 100) // 4


def wait(fd: int) -> None:
    """Until the descriptor is readable; ends the process if that takes too long for a test."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    if not poll.poll(60_000):
        raise TimeoutError("nothing came for a minute")


def committed(ring: Ring) -> int:
    """Messages that the writers so far have finished."""
    return layout.unpack_cursor(ring.words[layout.HEAD_AT])[0]


def write(ring: Ring, last: int) -> Sender:
    sender = Sender(ring)
    for number in range(committed(ring) + 1, last + 1):
        content = message(number, largest(ring))
        while not sender.send(content):
            wait(sender.fileno)
            sender.acknowledge()
    return sender


def read(ring: Ring, last: int, discard: bool) -> Receiver:
    receiver = Receiver(ring)
    if discard:
        receiver.discard()
    number = 0
    while number < last:
        wait(receiver.fileno)
        for received in receiver.receive():
            number = received.sequence
            check(received.message, number, largest(ring))
    return receiver


def main() -> None:
    role, *numbers = sys.argv[1:]
    memory, data, space, last = map(int, numbers)
    ring = Ring.attach(RingFds(memory, data, space), "edge")
    end = write(ring, last) if role == "write" else read(ring, last, role == "read-after-discard")
    print(msgspec.json.encode(end.counters).decode())


if __name__ == "__main__":
    main()
