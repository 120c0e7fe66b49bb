"""An edge between two processes, either of which is killed and replaced."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from support import ring_peer
from talkwire_pipeline.connector.edge import Receiver, Sender
from talkwire_pipeline.connector.ring import Ring

CAPACITY = 1 << 16
Start = Callable[..., "subprocess.Popen[str]"]


def resources() -> tuple[set[str], set[str]]:
    gc.collect()
    return set(os.listdir("/proc/self/fd")), set(os.listdir("/dev/shm"))


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    before = resources()
    yield
    assert resources() == before


@pytest.fixture
def ring(nothing_is_left: None) -> Iterator[Ring]:
    with contextlib.closing(Ring.create(CAPACITY, "edge")) as ring:
        yield ring


@pytest.fixture
def start(ring: Ring) -> Iterator[Start]:
    """Starts a peer (see `support.ring_peer`) on the ring's own descriptors."""
    peers: list[subprocess.Popen[str]] = []
    fds = (ring.fds.memory, ring.fds.data, ring.fds.space)

    def start(role: str, last: int) -> subprocess.Popen[str]:
        command = [sys.executable, str(Path(ring_peer.__file__)), role, *map(str, (*fds, last))]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        peers.append(subprocess.Popen(command, pass_fds=fds, env=environment, stdout=subprocess.PIPE, text=True))
        return peers[-1]

    yield start
    for peer in peers:
        kill(peer)


def kill(peer: subprocess.Popen[str]) -> None:
    with peer:
        peer.kill()


def counters(peer: subprocess.Popen[str]) -> dict[str, int]:
    """Waits for a peer that ends by itself."""
    output, _ = peer.communicate(timeout=120)
    assert peer.returncode == 0
    return json.loads(output)  # type: ignore[no-any-return]


class Checked:
    """Receives in this process and checks each message; `seen` is the number of the last one."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self.receiver = Receiver(ring)
        self.seen = 0

    def read_to(self, number: int) -> None:
        """Until that message was seen, or a few more."""
        while self.seen < number:
            ring_peer.wait(self.receiver.fileno)
            self.drain()

    def drain(self) -> None:
        for received in self.receiver.receive():
            self.seen += 1
            assert received.sequence == self.seen
            ring_peer.check(received.message, self.seen, ring_peer.largest(self._ring))


def test_random_sizes_through_a_full_ring(ring: Ring, start: Start) -> None:
    last = 10_000
    reader = start("read", last)
    writer = start("write", last)
    sent, received = counters(writer), counters(reader)
    assert sent["messages"] == received["messages"] == last
    assert sent["bytes"] == received["bytes"] > 100 * CAPACITY
    assert sent["stalls"] > 0
    assert CAPACITY // 2 < sent["high_water_bytes"] <= CAPACITY


def test_a_reader_that_is_slower_than_its_writer(ring: Ring, start: Start) -> None:
    last = 1000
    writer = start("write", last)
    receiver = Receiver(ring)
    number = 0
    while number < last:
        ring_peer.wait(receiver.fileno)
        for received in receiver.receive():
            number += 1
            assert received.sequence == number
            for _ in range(8):
                ring_peer.check(received.message, number, ring_peer.largest(ring))
            break  # the rest must wake it again
    assert counters(writer)["stalls"] > 10
    assert list(receiver.receive()) == []


def test_a_writer_that_is_killed_leaves_no_half_message(ring: Ring, start: Start) -> None:
    random = Random(1)
    checked = Checked(ring)
    for _ in range(10):
        writer = start("write", 1 << 30)
        checked.read_to(checked.seen + random.randrange(1, 400))
        kill(writer)
        checked.drain()
        assert checked.seen <= ring_peer.committed(ring)
    last = ring_peer.committed(ring) + 1000
    writer = start("write", last)
    checked.read_to(last)
    assert counters(writer)["messages"] == 1000
    assert checked.receiver.discard() == 0


@pytest.mark.parametrize("role", ["read", "read-after-discard"])
def test_a_reader_that_is_killed_is_replaced(ring: Ring, start: Start, role: str) -> None:
    random = Random(2)
    sender = Sender(ring)
    number = 0
    for _ in range(8):
        reader = start(role, 1 << 30)
        number = send(ring, sender, number, random.randrange(100, 1000))
        kill(reader)
    reader = start(role, number + 2000)
    send(ring, sender, number, 2000)
    received = counters(reader)
    assert received["messages"] >= 1
    sender.acknowledge()
    assert sender.counters.used_bytes == 0


def send(ring: Ring, sender: Sender, number: int, count: int) -> int:
    """Sends `count` messages after this number, waiting for space where it must; the last number."""
    last = number + count
    for each in range(number + 1, last + 1):
        content = ring_peer.message(each, ring_peer.largest(ring))
        while not sender.send(content):
            ring_peer.wait(sender.fileno)
            sender.acknowledge()
    return last


def test_both_are_killed_in_turn_and_go_on(ring: Ring, start: Start) -> None:
    random = Random(3)
    last = 10_000
    reader, writer = start("read", last), start("write", last)
    for _ in range(8):
        target = min(ring_peer.committed(ring) + random.randrange(300), last - 1)
        while ring_peer.committed(ring) < target:
            os.sched_yield()
        if random.random() < 0.5:
            kill(writer)
            writer = start("write", last)
        else:
            kill(reader)
            reader = start("read", last)
    counters(writer)
    counters(reader)
    assert ring_peer.committed(ring) == last


def test_the_memory_of_a_peer_has_no_name(ring: Ring, start: Start) -> None:
    writer = start("write", 1 << 30)
    Checked(ring).read_to(1)
    maps = Path(f"/proc/{writer.pid}/maps").read_text()
    assert "/memfd:talkwire-edge" in maps
    assert "/dev/shm" not in maps
