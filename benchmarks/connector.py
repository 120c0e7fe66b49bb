"""The connector between two processes: latency one way, throughput, CPU of the receiver.

Run by `make bench`, or as `python -m benchmarks.connector`; takes about 25 s. The sender is this process, the
receiver one of its own, blocking in `poll` or called by an asyncio loop. It looks at each message, not at its samples.
"""

from __future__ import annotations

import asyncio
import json
import select
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numpy as np

from talkwire.render import table
from talkwire_pipeline.connector.edge import Receiver, Sender
from talkwire_pipeline.connector.ring import Ring, RingFds
from talkwire_pipeline.messages import Audio, Message, Rows, Stop

READERS = ("blocking", "asyncio")
PACES = ((1000, 3), (25, 4))  # messages a second, for so many seconds
CAPACITY_BYTES = 1 << 20
SETTLE_S, IDLE_S = 0.5, 1.5
ROWS = Rows(generations=np.arange(8, dtype=np.uint64), codes=np.zeros((8, 8), np.int16))
FLOODS = {
    "rows of a step": (ROWS, 50_000),
    "audio, 1 s": (Audio(first_sample=0, samples=np.zeros(24_000, np.float32)), 10_000),
}


class Meter:
    """What the receiving process measures; `stopped` once it was told so."""

    def __init__(self, receiver: Receiver) -> None:
        self.receiver = receiver
        self.latencies_us: list[float] = []
        self.stopped = False

    def drain(self) -> None:
        for received in self.receiver.receive():
            self.latencies_us.append((time.monotonic_ns() - received.sent_ns) / 1e3)
            self.stopped = isinstance(received.message, Stop)

    def report(self) -> None:
        latencies = self.latencies_us[len(self.latencies_us) // 20 : -1]  # without the warm-up and `Stop`
        p50, p99 = np.percentile(latencies or [0.0], (50, 99))
        print(json.dumps({"p50": p50, "p99": p99, "end": time.monotonic(), "cpu_s": time.process_time()}))


def block(meter: Meter) -> None:
    poll = select.poll()
    poll.register(meter.receiver.fileno, select.POLLIN)
    while not meter.stopped:
        poll.poll()
        meter.drain()


async def listen(meter: Meter) -> None:
    stopped = asyncio.Event()

    def drain() -> None:
        meter.drain()
        if meter.stopped:
            stopped.set()

    asyncio.get_running_loop().add_reader(meter.receiver.fileno, drain)
    await stopped.wait()


def receive(reader: str, fds: Iterable[str]) -> None:
    """The receiving process."""
    meter = Meter(Receiver(Ring.attach(RingFds(*map(int, fds)))))
    meter.report()  # it is ready
    sys.stdout.flush()
    if reader == "asyncio":
        asyncio.run(listen(meter))
    else:
        block(meter)
    meter.report()


class Edge:
    """The sending end, with the process at the other one."""

    def __init__(self, ring: Ring, process: subprocess.Popen[str]) -> None:
        self.sender = Sender(ring)
        self.process = process
        self.before = self.report()
        self.start = time.monotonic()
        self.poll = select.poll()
        self.poll.register(self.sender.fileno, select.POLLIN)

    def report(self) -> dict[str, float]:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())  # type: ignore[no-any-return]

    def send(self, message: Message) -> None:
        while not self.sender.send(message):
            self.poll.poll()
            self.sender.acknowledge()

    def stop(self) -> dict[str, float]:
        """What the receiver measured, and how long it took from the first message to the last."""
        self.send(Stop())
        report = self.report()
        took_s = report["end"] - self.start
        return report | {"took_s": took_s, "cpu": (report["cpu_s"] - self.before["cpu_s"]) / took_s}


@contextmanager
def edge(reader: str) -> Iterator[Edge]:
    ring = Ring.create(CAPACITY_BYTES)
    fds = (ring.fds.memory, ring.fds.data, ring.fds.space)
    command = [sys.executable, __file__, reader, *map(str, fds)]
    with subprocess.Popen(command, pass_fds=fds, stdout=subprocess.PIPE, text=True) as process:
        yield Edge(ring, process)
    ring.close()


def latency(reader: str, rate: int, duration_s: int) -> tuple[str, ...]:
    with edge(reader) as end:
        for number in range(rate * duration_s):
            time.sleep(max(0.0, end.start + number / rate - time.monotonic()))
            end.send(ROWS)
        report = end.stop()
    p50, p99 = (f"{report[name]:.0f}" for name in ("p50", "p99"))
    return reader, "rows of a step", f"{rate}", "", p50, p99, f"{report['cpu']:.1%}"


def throughput(reader: str, what: str) -> tuple[str, ...]:
    message, count = FLOODS[what]
    with edge(reader) as end:
        for _ in range(count):
            end.send(message)
        report = end.stop()
        rate = count / report["took_s"]
        mb = end.sender.counters.bytes / report["took_s"] / 1e6
    return reader, what, f"{rate:.0f} (flat out)", f"{mb:.0f}", "", "", f"{report['cpu']:.0%}"


def cpu_s(pid: int) -> float:
    """Of a process so far, by its CPU clock: what clock_getcpuclockid(3) gives, which Python does not have."""
    return time.clock_gettime_ns(~pid << 3 | 2) / 1e9


def idle(reader: str) -> tuple[str, ...]:
    with edge(reader) as end:
        time.sleep(SETTLE_S)
        before = cpu_s(end.process.pid)
        time.sleep(IDLE_S)
        used_s = cpu_s(end.process.pid) - before
        end.stop()
    return reader, "none", "0", "", "", "", f"{used_s / IDLE_S:.2%}"


def main() -> None:
    rows = []
    for reader in READERS:
        rows += [latency(reader, *pace) for pace in PACES]
        rows += [throughput(reader, what) for what in FLOODS]
        rows.append(idle(reader))
    print(table(("reader", "messages", "a second", "MB/s", "p50 us", "p99 us", "CPU"), rows))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        receive(sys.argv[1], sys.argv[2:])
    else:
        main()
