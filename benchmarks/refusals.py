"""How long a refused start takes: from the caller's event to the answer, on a stream that is open.

    python -m benchmarks.refusals

A server with the demo voice, all of whose slots speak meanwhile; one server for each reason. Event and answer go over
bare gRPC, so that the client's own code takes no part; but this process shares the cores with the server and its
stages, and reads the audio of those who speak.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc.aio

from talkwire.bench import SENTENCES, percentile
from talkwire.errors import from_status
from talkwire.render import table
from talkwire.v1 import speech_pb2 as pb
from talkwire.v1.speech_pb2_grpc import SpeechServiceStub
from tools.server import Server, serving

STARTS = 5000
BEFORE = 20
"""Starts that are not counted: the first ones wait for pages and caches."""
LIVE = 8
"""Utterances that speak, or wait to, while others are refused."""
SLOTS = 4
LIMIT_S = 0.005
TEXT = " ".join(SENTENCES * 12)
HEAD = ("refused with", "starts", "p50 ms", "p99 ms", "max ms", f"over {LIMIT_S * 1e3:g} ms")
CASES = {
    "LIVE_UTTERANCES": f"server.max_live_utterances={LIVE}",
    "QUOTA": f"server.quotas.default.live_utterances={LIVE}",
    "QUEUE_FULL": f"server.max_queued_segments={LIVE - SLOTS}",
    "DRAINING": "server.drain_timeout_s=600",
}
"""What makes the server refuse, by its reason."""


@dataclass(slots=True)
class Caller:
    """Starts utterances on a stream of its own, one after the other."""

    call: Any
    started: int = 0

    async def start(self) -> str:
        """Starts one more; why it was refused, or nothing."""
        name = f"u{self.started}"
        await self.call.write(pb.ConverseRequest(utterance_id=name, start=pb.Start()))
        while (response := await self.call.read()).utterance_id != name:
            pass
        if response.WhichOneof("event") == "failed":
            return from_status(response.failed).reason
        self.started += 1
        return ""

    async def speak(self) -> str:
        """The same, and it has much to say."""
        if not (reason := await self.start()):
            name = f"u{self.started - 1}"
            await self.call.write(pb.ConverseRequest(utterance_id=name, text=pb.TextIncrement(text=TEXT)))
        return reason

    async def drain(self) -> None:
        """Reads what is said, to the end."""
        while await self.call.read() is not grpc.aio.EOF:
            pass


@asynccontextmanager
async def caller(server: Server) -> AsyncIterator[Caller]:
    async with grpc.aio.insecure_channel(server.target) as channel:
        call = SpeechServiceStub(channel).Converse()
        yield Caller(call)
        call.cancel()


async def refusals(server: Server, reason: str) -> list[float]:
    """Seconds that each refused start took."""
    async with caller(server) as speaker, caller(server) as refused:
        while speaker.started < LIVE and not await speaker.speak():
            pass
        draining = asyncio.create_task(speaker.drain())
        if reason == "DRAINING":
            await refused.start()  # a live utterance of its own keeps its stream open
            server.process.send_signal(signal.SIGTERM)
        while await refused.speak() != reason:
            pass
        took_s = [await timed(refused, reason) for _ in range(BEFORE + STARTS)]
        draining.cancel()
        await asyncio.gather(draining, return_exceptions=True)
    return took_s[BEFORE:]


async def timed(refused: Caller, reason: str) -> float:
    begun_s = time.perf_counter()
    found = await refused.start()
    took_s = time.perf_counter() - begun_s
    if found != reason:
        raise RuntimeError(f"a start was refused with {found or 'nothing'}, and not with {reason}")
    return took_s


def row(reason: str, setting: str) -> tuple[str, ...]:
    sets = ("--set", f"talker.max_num_seqs={SLOTS}", "--set", setting)
    with serving("--profile", "demo", "--log-level", "error", *sets) as server:
        took_s = asyncio.run(refusals(server, reason))
    times = (percentile(took_s, 0.5), percentile(took_s, 0.99), max(took_s))
    late = sum(each > LIMIT_S for each in took_s)
    return (reason, str(len(took_s)), *(f"{each * 1e3:.2f}" for each in times), str(late))


def main() -> None:
    print(table(HEAD, [row(reason, setting) for reason, setting in CASES.items()]))


if __name__ == "__main__":
    main()
