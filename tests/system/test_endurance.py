"""Ten thousand RPCs that somebody drops, in every way there is: what the processes hold stays as it was."""

from __future__ import annotations

import asyncio
import random
import statistics
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio
import pytest

from support.observed import Held, Observed, until_equal
from support.relay import relaying
from talkwire.v1 import speech_pb2 as pb
from talkwire.v1.speech_pb2_grpc import SpeechServiceStub
from tools.server import serving

RPCS = 10_000
ROUNDS = 20
AT_ONCE = 40
ON_A_CHANNEL = 10
"""RPCs that share a channel; a killed one takes so many with it."""
TEXT = "It may be dropped at any moment. "
GROWTH_MIB = 8.0
"""By which the second half may lie above the first; a leak of 2 kB an RPC would be more."""
SPARE_THREADS = 2
"""gRPC starts one more where it likes to."""
ARGUMENTS = ("--profile", "demo", "--metrics-port", "0", "--log-level", "error")
CUT_WHILE_WRITING = grpc.StatusCode.INTERNAL
"""What gRPC's client says of a call that ends during a write (grpc issue 36066); the server never says it here."""
Call = Any
"""A `Converse`."""
ENDS = ("finished", "aborted", "failed")


@pytest.fixture(scope="module")
def server() -> Iterator[Observed]:
    with serving(*ARGUMENTS) as server:
        yield Observed(server)


# ---- one RPC


async def send(call: Call, **event: Any) -> None:
    await call.write(pb.ConverseRequest(utterance_id="u", **event))


async def until(call: Call, *events: str) -> None:
    """Reads up to one of these, to the end of the utterance, or to that of the call."""
    while isinstance(response := await call.read(), pb.ConverseResponse):
        if response.WhichOneof("event") in (*events, *ENDS):
            return


async def speak(call: Call, dice: random.Random) -> None:
    """A text, up to some moment in its life."""
    await send(call, start=pb.Start())
    await send(call, text=pb.TextIncrement(text=TEXT * dice.randint(1, 3)))
    if moment := dice.choice(("", "started", "audio")):
        await send(call, flush=pb.Flush())
        await until(call, moment)


async def abort(call: Call, dice: random.Random) -> None:
    await speak(call, dice)
    await send(call, abort=pb.Abort())
    await until(call)
    await call.done_writing()
    assert await call.code() is grpc.StatusCode.OK


async def cancel(call: Call, dice: random.Random) -> None:
    await speak(call, dice)
    call.cancel()


async def deadline(call: Call, dice: random.Random) -> None:
    """The call has one (see `drop`), and it passes."""
    with suppress(grpc.RpcError, asyncio.InvalidStateError):
        await speak(call, dice)
    assert await call.code() in (grpc.StatusCode.DEADLINE_EXCEEDED, CUT_WHILE_WRITING)


async def half_close(call: Call, dice: random.Random) -> None:
    """Says no more; the server speaks to the end, or to the caller's leaving."""
    await speak(call, dice)
    await call.done_writing()
    if dice.random() < 0.5:
        await until(call)
    else:
        call.cancel()


WAYS: dict[str, Callable[[Call, random.Random], Awaitable[None]]] = {
    "abort": abort,
    "cancel": cancel,
    "deadline": deadline,
    "half-close": half_close,
}


async def drop(stub: Any, dice: random.Random) -> str:
    """One RPC, dropped in some way; which."""
    way = dice.choice(list(WAYS))
    call = stub.Converse(timeout=dice.uniform(0.001, 0.3) if way == "deadline" else None)
    await WAYS[way](call, dice)
    return way


# ---- many


@asynccontextmanager
async def channel(target: str) -> AsyncIterator[Any]:
    """A stub on a connection of its own."""
    async with grpc.aio.insecure_channel(target, options=[("grpc.use_local_subchannel_pool", 1)]) as opened:
        yield SpeechServiceStub(opened)


async def dropped_channel(target: str, dice: random.Random) -> Counter[str]:
    """RPCs of one channel."""
    async with channel(target) as stub:
        return Counter(await asyncio.gather(*(drop(stub, dice) for _ in range(ON_A_CHANNEL))))


async def killed_channel(target: str, dice: random.Random) -> Counter[str]:
    """RPCs of one channel, all of which are under way when it is cut off."""
    async with relaying(target) as relay, channel(relay.target) as stub:
        calls = [stub.Converse() for _ in range(ON_A_CHANNEL)]
        await asyncio.gather(*(speak(call, dice) for call in calls))
        relay.cut()
        codes = await asyncio.gather(*(call.code() for call in calls))
        assert set(codes) == {grpc.StatusCode.UNAVAILABLE}
    return Counter({"killed channel": ON_A_CHANNEL})


async def round_of(target: str, name: str) -> Counter[str]:
    """A share of all RPCs, many at the same time; how many were dropped in which way."""
    channels = iter(range(RPCS // ROUNDS // ON_A_CHANNEL))
    ways: Counter[str] = Counter()

    async def caller() -> None:
        for number in channels:
            drop_all = killed_channel if number % 5 == 0 else dropped_channel
            ways.update(await drop_all(target, random.Random(f"{name}/{number}")))

    await asyncio.gather(*(caller() for _ in range(AT_ONCE // ON_A_CHANNEL)))
    return ways


# ---- what is held


@dataclass(frozen=True)
class Holding:
    """What the processes hold while nobody speaks; by process, but for the names in /dev/shm."""

    resident_mib: dict[str, float]
    threads: dict[str, int]
    held: Held

    def __str__(self) -> str:
        memory = " ".join(f"{mib:7.1f}" for mib in self.resident_mib.values())
        threads = " ".join(f"{count:3}" for count in self.threads.values())
        descriptors = " ".join(f"{each.total():3}" for each in self.held.descriptors.values())
        return f"MiB {memory}   threads {threads}   descriptors {descriptors}   shm {len(self.held.shared_memory)}"


async def holding(server: Observed, before: Holding | None = None) -> Holding:
    """When everything has been let go of, and no more descriptors are open than before."""
    await server.until_idle()
    if before is not None:
        await until_equal(lambda: server.held().beyond(before.held), {})
    return Holding(server.resident_mib(), server.threads(), server.held())


@pytest.mark.long
@pytest.mark.timeout(3600)
async def test_ten_thousand_dropped_rpcs_leave_nothing_behind(server: Observed) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"random seed {seed}")
    await round_of(server.target, f"{seed}/before")
    first = await holding(server)
    print(f"  {' '.join(first.resident_mib)}\nbefore    {first}", flush=True)
    ways: Counter[str] = Counter()
    seen: list[Holding] = []
    for number in range(ROUNDS):
        ways += await round_of(server.target, f"{seed}/{number}")
        seen.append(await holding(server, first))
        print(f"{ways.total():6} RPCs {seen[-1]}", flush=True)
    print(dict(ways), ends(server))
    assert not [name for name in ends(server) if "INTERNAL" in name]
    assert ways.total() == RPCS
    assert len(ways) == len(WAYS) + 1
    halves = seen[: ROUNDS // 2], seen[ROUNDS // 2 :]
    for name in first.resident_mib:
        earlier_mib, later_mib = (statistics.mean(each.resident_mib[name] for each in half) for half in halves)
        earlier, later = (max(each.threads[name] for each in half) for half in halves)
        print(f"{name}: {earlier_mib:.1f} MiB and then {later_mib:.1f}, at most {earlier} threads and then {later}")
        assert later_mib - earlier_mib < GROWTH_MIB
        assert later <= earlier + SPARE_THREADS
    assert not seen[-1].held.shared_memory - first.held.shared_memory


def ends(server: Observed) -> dict[str, float]:
    """Utterances by how they ended, and RPCs by status."""
    kinds = ("talkwire_utterances_total", "talkwire_rpcs_total")
    return {name: value for name, value in server.figures().items() if name.startswith(kinds) and value}
