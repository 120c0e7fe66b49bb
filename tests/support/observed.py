"""A real server and its two stages, seen from outside: figures, health, and what their processes hold."""

from __future__ import annotations

import asyncio
import os
import re
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tools.server import Server

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
LIMIT_S = 60.0
"""What has not come by then will not come."""
POLL_S = 0.02
IDLE = {
    "talkwire_live_utterances": 0,
    "talkwire_streams": 0,
    "talkwire_queued_segments": 0,
    "talkwire_busy_slots": 0,
    'talkwire_stage_generations{stage="talker"}': 0,
    'talkwire_stage_generations{stage="codec"}': 0,
}
"""Figures of a server that speaks to nobody."""
_METRICS = re.compile(r"metrics on (\S+:\d+)")


@dataclass(frozen=True)
class Held:
    """What the server and its stages hold: open descriptors by what they are, and all names in shared memory."""

    descriptors: dict[str, Counter[str]]
    shared_memory: frozenset[str]

    def beyond(self, before: Held) -> dict[str, Counter[str]]:
        """Descriptors that are more than before, by process. (Then a connection may have been about to close.)"""
        more = {name: now - before.descriptors[name] for name, now in self.descriptors.items()}
        return {name: surplus for name, surplus in more.items() if surplus}


class Observed:
    """A server that was started with a metrics port.

    Attributes:
        target: for clients.
        pid: of the server process.
        metrics: host and port of its metrics.
    """

    def __init__(self, server: Server) -> None:
        self.target = server.target
        self.pid = server.process.pid
        self.metrics: str = _METRICS.findall(server.line)[0]

    def pid_of(self, stage: str) -> int:
        """The stage's process."""
        return self._processes()[f"talkwire-{stage}"]

    def _processes(self) -> dict[str, int]:
        """The server and its children by name."""
        children = Path(f"/proc/{self.pid}/task").glob("*/children")
        pids = [int(pid) for each in children for pid in each.read_text().split()]
        return {"server": self.pid} | {Path(f"/proc/{pid}/comm").read_text().strip(): pid for pid in pids}

    def held(self) -> Held:
        """What is held now."""
        descriptors = {name: _descriptors(pid) for name, pid in self._processes().items()}
        return Held(descriptors, frozenset(os.listdir("/dev/shm")))

    def resident_mib(self) -> dict[str, float]:
        """Memory of each process."""
        return {name: _resident_mib(pid) for name, pid in self._processes().items()}

    def threads(self) -> dict[str, int]:
        """Threads of each process."""
        return {name: len(os.listdir(f"/proc/{pid}/task")) for name, pid in self._processes().items()}

    def figures(self) -> dict[str, float]:
        """All of `/metrics`, by name with labels."""
        with urllib.request.urlopen(f"http://{self.metrics}/metrics", timeout=LIMIT_S) as response:
            lines = response.read().decode().splitlines()
        pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
        return {name: float(value) for name, _, value in pairs}

    async def until_figures(self, **expected: float) -> None:
        """Waits until these figures, named without `talkwire_`, have these values."""
        await self._until_figures({f"talkwire_{name}": value for name, value in expected.items()})

    async def until_idle(self) -> None:
        """Waits until nothing is live and nothing is held for anybody."""
        await self._until_figures(IDLE)

    async def _until_figures(self, expected: dict[str, float]) -> None:
        def now() -> dict[str, float | None]:
            figures = self.figures()
            return {name: figures.get(name) for name in expected}

        await until_equal(now, expected)


def _descriptors(pid: int) -> Counter[str]:
    """What the process has open; `socket:[123]` counts as `socket:[N]`."""
    folder = Path(f"/proc/{pid}/fd")
    found: Counter[str] = Counter()
    for name in os.listdir(folder):
        with suppress(FileNotFoundError):  # closed meanwhile
            found[re.sub(r"\d+", "N", os.readlink(folder / name))] += 1
    return found


def _resident_mib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


async def until_equal(look: Callable[[], Any], expected: object) -> None:
    """Looks at another process until it is as expected; a failed assertion if it never is."""
    clock = asyncio.get_running_loop().time
    give_up_s = clock() + LIMIT_S
    while (seen := look()) != expected and clock() < give_up_s:  # noqa: ASYNC110 - it has no event to wait for
        await asyncio.sleep(POLL_S)
    assert seen == expected, f"\n{seen}\nand not\n{expected}"


class Health:
    """The health service's states as they come."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._call: Any = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=LIMIT_S)

    async def becomes(self, state: int) -> None:
        """Returns when it says so; the call's own limit ends a wait in vain."""
        while (await self._call.read()).status != state:
            pass

    def close(self) -> None:
        """Lets go of the call, with which the connection goes."""
        self._call.cancel()
        self._call = None


@asynccontextmanager
async def watching(target: str) -> AsyncIterator[Health]:
    """Watches the server's health."""
    async with grpc.aio.insecure_channel(target) as channel:
        health = Health(channel)
        try:
            yield health
        finally:
            health.close()
