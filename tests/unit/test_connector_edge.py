"""Messages over an edge, with both ends in one process."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from support.rings import readable
from talkwire_pipeline.connector import codec, layout
from talkwire_pipeline.connector.edge import Receiver, Sender
from talkwire_pipeline.connector.ring import Ring
from talkwire_pipeline.errors import InternalError
from talkwire_pipeline.messages import Abort, Audio, Failed, Ping, Rows

CAPACITY = 4096


@pytest.fixture
def ring() -> Iterator[Ring]:
    ring = Ring.create(CAPACITY, "codes")
    yield ring
    ring.close()


@pytest.fixture
def sender(ring: Ring) -> Sender:
    return Sender(ring)


@pytest.fixture
def receiver(ring: Ring) -> Receiver:
    return Receiver(ring)


def rows(generation: int) -> Rows:
    codes = np.full((20, 8), generation, np.int16)
    return Rows(generations=np.full(20, generation, np.uint64), codes=codes)


def generations(receiver: Receiver) -> list[int]:
    return [received.message.generation for received in receiver.receive()]


def test_messages_arrive_in_order_with_number_and_time(sender: Sender, receiver: Receiver) -> None:
    for generation in (5, 6, 7):
        assert sender.send(Abort(generation=generation))
    received = list(receiver.receive())
    assert [each.message for each in received] == [Abort(generation=n) for n in (5, 6, 7)]
    assert [each.sequence for each in received] == [1, 2, 3]
    times = [each.sent_ns for each in received]
    assert times == sorted(times)
    assert list(receiver.receive()) == []


def test_arrays_are_views_and_their_space_goes_back_as_the_iterator_goes_on(sender: Sender, receiver: Receiver) -> None:
    for generation in (1, 2):
        assert sender.send(rows(generation))
    sender.acknowledge()
    both = sender.counters.used_bytes
    iterator = receiver.receive()
    first = next(iterator).message
    assert isinstance(first, Rows)
    assert not first.codes.flags.owndata
    assert (first.codes == 1).all()
    sender.acknowledge()
    assert sender.counters.used_bytes == both
    second = next(iterator).message
    assert isinstance(second, Rows)
    assert (second.codes == 2).all()
    sender.acknowledge()
    assert 0 < sender.counters.used_bytes < both
    assert next(iterator, None) is None
    sender.acknowledge()
    assert sender.counters.used_bytes == 0


def test_a_full_edge_refuses_and_wakes_its_sender_later(sender: Sender, receiver: Receiver) -> None:
    sent = 0
    while sender.send(rows(sent + 1)):
        sent += 1
    assert not sender.send(rows(99))
    assert sender.counters.stalls == 1, "one stall, however often it is tried"
    assert not readable(sender.fileno)
    assert generations(receiver) == [0] * sent
    assert readable(sender.fileno)
    sender.acknowledge()
    assert not readable(sender.fileno)
    while sender.send(rows(1)):
        assert sender.counters.stalls == 1
    assert sender.counters.stalls == 2


def test_the_largest_message_fits_and_a_larger_one_is_an_error(sender: Sender, receiver: Receiver) -> None:
    fits = Audio(generation=1, first_sample=0, samples=np.ones(500, np.float32))
    assert codec.encode(fits).size + layout.RECORD_HEADER_BYTES == sender.max_message_bytes == CAPACITY // 2
    assert sender.send(fits)
    expected = "codes: Audio of 2052 bytes is too large: .* capacity_bytes must be at least 4104"
    with pytest.raises(InternalError, match=expected) as caught:
        sender.send(Audio(generation=2, first_sample=0, samples=np.ones(501, np.float32)))
    assert caught.value.reason == "MESSAGE_TOO_LARGE"
    assert sender.send(Abort(generation=3))
    assert generations(receiver) == [1, 3]


def test_discard_drops_all(sender: Sender, receiver: Receiver) -> None:
    for generation in (1, 2):
        assert sender.send(Abort(generation=generation))
    assert receiver.discard() == 2
    assert not readable(receiver.fileno)
    assert generations(receiver) == []
    assert sender.send(Abort(generation=3))
    assert generations(receiver) == [3]
    assert receiver.counters.messages == 1


def test_discard_ends_an_open_iterator(sender: Sender, receiver: Receiver) -> None:
    for generation in (1, 2, 3):
        assert sender.send(Abort(generation=generation))
    iterator = receiver.receive()
    assert next(iterator).message == Abort(generation=1)
    assert receiver.discard() == 3
    assert sender.send(Abort(generation=4))
    assert next(iterator, None) is None
    assert generations(receiver) == [4]


def test_an_iterator_that_is_left_early_loses_nothing(sender: Sender, receiver: Receiver) -> None:
    for generation in (1, 2, 3):
        assert sender.send(Abort(generation=generation))
    for received in receiver.receive():
        assert received.message.generation == 1
        break
    assert readable(receiver.fileno)
    assert generations(receiver) == [2, 3]
    assert not readable(receiver.fileno)


def test_a_drain_is_bounded_by_what_was_there_at_its_start(sender: Sender, receiver: Receiver) -> None:
    assert sender.send(Ping(nonce=0))
    for count, _ in enumerate(receiver.receive(), 1):
        assert count == 1, "a fast sender must not keep a receiver from its other work"
        assert sender.send(Ping(nonce=count))
    assert readable(receiver.fileno)


def test_a_message_that_cannot_be_read_is_dropped(sender: Sender, receiver: Receiver, ring: Ring) -> None:
    for generation in (1, 2):
        assert sender.send(Abort(generation=generation))
    ring.words[layout.DATA_AT] = 99 | 9 << 32
    with pytest.raises(InternalError, match="kind 99"):
        list(receiver.receive())
    assert readable(receiver.fileno)
    assert generations(receiver) == [2]


def test_counters(sender: Sender, receiver: Receiver) -> None:
    for _ in range(3):
        assert sender.send(rows(0))
    list(receiver.receive())
    assert sender.counters.messages == receiver.counters.messages == 3
    assert sender.counters.bytes == receiver.counters.bytes > 3 * 20 * (8 + 16)
    most = sender.counters.high_water_bytes
    assert most == receiver.counters.high_water_bytes >= sender.counters.bytes
    assert receiver.counters.stalls == sender.counters.stalls == 0
    assert sender.send(Abort(generation=4))
    list(receiver.receive())
    sender.acknowledge()
    for counters in (sender.counters, receiver.counters):
        assert counters.used_bytes < counters.high_water_bytes == most


@pytest.mark.parametrize(
    "use",
    [
        lambda sender, receiver: sender.send(Abort(generation=1)),
        lambda sender, receiver: sender.acknowledge(),
        lambda sender, receiver: sender.fileno,
        lambda sender, receiver: list(receiver.receive()),
        lambda sender, receiver: receiver.discard(),
        lambda sender, receiver: receiver.fileno,
    ],
)
def test_a_closed_end_says_so(sender: Sender, receiver: Receiver, use: Callable[[Sender, Receiver], object]) -> None:
    for end in (sender, receiver):
        end.close()
        end.close()
    with pytest.raises(InternalError, match="codes: this end of the edge is closed"):
        use(sender, receiver)


def test_an_iterator_that_outlives_its_receiver_touches_nothing(sender: Sender, receiver: Receiver, ring: Ring) -> None:
    for generation in (1, 2):
        assert sender.send(Abort(generation=generation))
    iterator = receiver.receive()
    next(iterator)
    receiver.close()
    ring.close()
    assert next(iterator, None) is None


def test_closing_leaves_no_descriptors() -> None:
    before = set(os.listdir("/proc/self/fd"))
    ring = Ring.create(CAPACITY)
    sender, receiver = Sender(ring), Receiver(ring)
    assert sender.send(rows(1))
    assert len(list(receiver.receive())) == 1
    receiver.close()
    sender.close()
    ring.close()
    assert set(os.listdir("/proc/self/fd")) == before


async def test_an_event_loop_is_woken_for_messages_and_for_space(sender: Sender, receiver: Receiver) -> None:
    loop = asyncio.get_running_loop()
    total = 300
    sent, seen = 0, 0
    done = loop.create_future()

    def take() -> None:
        nonlocal seen
        seen += sum(1 for _ in receiver.receive())
        if seen == total:
            done.set_result(None)

    def give() -> None:
        nonlocal sent
        sender.acknowledge()
        while sent < total and sender.send(Failed(generation=sent, detail="x" * 500)):
            sent += 1

    loop.add_reader(receiver.fileno, take)
    loop.add_reader(sender.fileno, give)
    give()
    async with asyncio.timeout(60):
        await done
    loop.remove_reader(receiver.fileno)
    loop.remove_reader(sender.fileno)
    assert sender.counters.stalls > 0
