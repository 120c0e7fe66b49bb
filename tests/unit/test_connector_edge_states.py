"""Any order of sending, receiving, discarding, and replacing either end, against a queue."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from support.rings import CAPACITY, readable
from talkwire_pipeline.connector.edge import Received, Receiver, Sender
from talkwire_pipeline.connector.ring import Ring, RingFds
from talkwire_pipeline.messages import Audio

LARGEST = (CAPACITY // 2 - 100) // 4
"""Samples that always fit an empty ring."""
sizes = st.integers(0, LARGEST) | st.sampled_from((0, 1, LARGEST))


def audio(number: int, size: int) -> Audio:
    return Audio(generation=number, first_sample=size, samples=np.arange(number, number + size, dtype=np.float32))


def check(received: Received, number: int) -> None:
    """That it is the message with this number, whole."""
    message = received.message
    assert isinstance(message, Audio)
    assert received.sequence == message.generation == number
    assert not message.samples.flags.writeable
    np.testing.assert_array_equal(message.samples, audio(number, message.first_sample).samples, strict=True)


def attached(ring: Ring) -> Ring:
    """As another process has it."""
    return Ring.attach(RingFds(*(os.dup(fd) for fd in (ring.fds.memory, ring.fds.data, ring.fds.space))))


class Edge(RuleBasedStateMachine):
    """One edge; `there` are the numbers of the messages that are still to be received."""

    def __init__(self) -> None:
        super().__init__()
        self.descriptors = set(os.listdir("/proc/self/fd"))
        self.ring = Ring.create(CAPACITY)
        self.senders, self.receivers = attached(self.ring), attached(self.ring)
        self.sender, self.receiver = Sender(self.senders), Receiver(self.receivers)
        self.sent = 0
        self.there: deque[int] = deque()
        self.iterator: Iterator[Received] | None = None
        self.left = 0  # messages that the iterator still brings; -1: it has not looked yet
        self.exact = True  # it brings that many; otherwise that many at most
        self.out: Received | None = None  # the message that it brought last
        self.answered = True  # the sender has looked at its edge since the receiver was replaced

    def teardown(self) -> None:
        self.finish()
        self.receiver.close()
        self.sender.close()
        for ring in (self.ring, self.senders, self.receivers):
            ring.close()
        self.out = self.iterator = None
        assert set(os.listdir("/proc/self/fd")) == self.descriptors

    def finish(self) -> None:
        """All that was sent arrives, and all space comes back."""
        self.look()
        self.close_iterator()
        self.receive_all()
        assert not self.there
        self.sender.acknowledge()
        assert self.sender.counters.used_bytes == 0

    # ---- the sender

    @rule(size=sizes)
    def send(self, size: int) -> None:
        if self.sender.send(audio(self.sent + 1, size)):
            self.sent += 1
            self.there.append(self.sent)
        else:
            assert self.there or self.out, "an empty edge has room for every message"
        self.answered = True

    @rule(size=sizes)
    def fill(self, size: int) -> None:
        before = -1
        while self.sent > before:
            before = self.sent
            self.send(size)

    @rule()
    def look(self) -> None:
        self.sender.acknowledge()
        self.answered = True

    def replace_sender(self) -> None:
        self.sender.close()
        self.senders.close()
        self.senders = attached(self.ring)
        self.sender = Sender(self.senders)
        self.answered = True

    @rule(size=sizes)
    def sender_dies_before_it_signals(self, size: int) -> None:
        self.send(size)
        if readable(self.ring.fds.data):
            os.eventfd_read(self.ring.fds.data)
        self.replace_sender()

    @rule(size=st.integers(0, CAPACITY // 2 - 32))
    def sender_dies_while_it_writes(self, size: int) -> None:
        payload = self.senders.writer().reserve(size)
        if payload is not None:
            payload[: size // 2] = bytes(size // 2)
        self.replace_sender()

    # ---- the receiver

    @precondition(lambda self: self.iterator is None)
    @rule()
    def open_iterator(self) -> None:
        self.iterator = self.receiver.receive()
        self.left = -1

    @precondition(lambda self: self.iterator)
    @rule()
    def advance(self) -> None:
        assert self.iterator is not None
        self.nothing_changes_under_the_receiver()
        if self.left < 0:
            self.left, self.exact = len(self.there), self.answered
        self.out = next(self.iterator, None)
        if self.out is None:
            assert self.left == 0 or not self.exact
            self.iterator = None
            return
        assert self.left > 0, "no more than was there when the iterator looked"
        self.left -= 1
        check(self.out, self.there.popleft())

    @rule()
    def close_iterator(self) -> None:
        if self.iterator is not None:
            self.iterator.close()  # type: ignore[attr-defined]
        self.iterator = self.out = None

    @rule()
    def receive_all(self) -> None:
        if self.iterator is None:
            self.open_iterator()
        while self.iterator is not None:
            self.advance()

    @rule()
    def discard(self) -> None:
        assert self.receiver.discard() == len(self.there) + (self.out is not None)
        self.there.clear()
        self.out = None
        if self.left > 0:
            self.left = 0

    @rule(woken=st.booleans(), discards=st.booleans())
    def receiver_dies(self, woken: bool, discards: bool) -> None:
        if woken and readable(self.ring.fds.data):  # and then it died
            os.eventfd_read(self.ring.fds.data)
        if self.out is not None:
            self.there.appendleft(self.out.sequence)
        self.receiver.close()
        self.receivers.close()
        self.iterator = self.out = None
        self.receivers = attached(self.ring)
        self.receiver = Receiver(self.receivers)
        self.answered = False
        if discards:
            self.discard()

    @rule()
    def signal_for_no_reason(self) -> None:
        os.eventfd_write(self.ring.fds.data, 1)
        os.eventfd_write(self.ring.fds.space, 8)

    # ---- always

    @invariant()
    def nothing_changes_under_the_receiver(self) -> None:
        if self.out is not None:
            check(self.out, self.out.sequence)

    @invariant()
    def a_receiver_that_waits_is_woken(self) -> None:
        if self.there and self.answered and self.iterator is None:
            assert readable(self.receiver.fileno)


Edge.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestEdge = Edge.TestCase
