"""The front end alone: a server in a process of its own over stages that only keep time, and streams that listen.

Each stream is sent a message of 40 ms every 40 ms. A message carries the time at which the stages handed it over, so
that its way through pipeline, session and gRPC is seen on one clock. The listeners share the other core.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, get_args

import grpc
import numpy as np

from benchmarks.processes import cpu_s
from talkwire.bench import percentile
from talkwire.v1 import speech_pb2 as pb
from talkwire.v1 import speech_pb2_grpc
from talkwire_pipeline.deploy import load
from talkwire_pipeline.geometry import SAMPLES_PER_FRAME
from talkwire_pipeline.messages import Abort, Audio, CodecDone, Message, Open, Released, StageName, TalkerDone
from talkwire_pipeline.stages import OnMessage, OnState, StageHealth, StageState
from talkwire_server.app import App

PERIOD_S = 0.04
STAMP_SAMPLES = 4
"""Samples that hold a time in ns: 64 bits."""
ROOM = (
    "server.max_live_utterances=512",
    "talker.max_num_seqs=512",
    "talker.max_model_len=100000",
    "codec.max_num_seqs=512",
    "text.cap.base_s=300",
)
"""So that nothing is refused, and a short text may become long audio."""
LATE_S = 0.04
"""A player that has one message in hand runs dry if the next is later than this."""


class Metronome:
    """`Stages` that answer an `Open` with a message of audio every 40 ms, for `seconds`."""

    def __init__(self, seconds: float) -> None:
        self._count = round(seconds / PERIOD_S)
        self._timers: dict[int, asyncio.TimerHandle] = {}

    async def start(self, on_message: OnMessage, on_state: OnState) -> None:
        self._say = on_message
        self._loop = asyncio.get_running_loop()
        self._first_s = self._loop.time()
        for stage in get_args(StageName):
            on_state(stage, "ready")

    def send(self, stage: StageName, message: Message) -> None:
        if isinstance(message, Open):
            phase_s = (message.generation * 0.0137) % PERIOD_S
            self._next(message.generation, 0, self._loop.time() + phase_s)
        elif isinstance(message, Abort):
            if (timer := self._timers.pop(message.generation, None)) is not None:
                timer.cancel()
            self._loop.call_soon(self._say, stage, Released(generation=message.generation))

    def _next(self, generation: int, number: int, at_s: float) -> None:
        self._timers[generation] = self._loop.call_at(at_s, self._tick, generation, number, at_s)

    def _tick(self, generation: int, number: int, at_s: float) -> None:
        if number == self._count:
            del self._timers[generation]
            codes = np.zeros((number, 8), np.int16)
            self._say("talker", TalkerDone(generation=generation, reason="eos", rows=number + 7, codes=codes))
            total = number * SAMPLES_PER_FRAME
            self._say("codec", CodecDone(generation=generation, samples=total, reason="eos"))
            return
        samples = np.zeros(SAMPLES_PER_FRAME, np.float32)
        samples[:STAMP_SAMPLES] = np.array([time.monotonic_ns()]).view(np.int16) / 32767
        self._say("codec", Audio(generation=generation, first_sample=number * SAMPLES_PER_FRAME, samples=samples))
        self._next(generation, number + 1, at_s + PERIOD_S)

    def watch(self, work_due: bool) -> None: ...

    def state(self, stage: StageName) -> StageState:
        return "ready"

    def fault(self, stage: StageName) -> str:
        return ""

    def facts(self, stage: StageName) -> dict[str, Any]:
        return {}

    def stats(self, stage: StageName) -> dict[str, float]:
        return {}

    def health(self, stage: StageName) -> StageHealth:
        return StageHealth()

    async def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()


async def serve(seconds: float) -> None:
    """Serves until stdin ends; prints the port."""
    sets = [
        "server.max_live_utterances=512",
        "talker.max_num_seqs=512",
        "codec.max_num_seqs=512",
        "text.cap.base_s=300",
    ]
    deploy = load("demo", overrides=[*sets, "talker.max_model_len=100000"], environment={})
    app = App(deploy, stages=Metronome(seconds))
    await app.start()
    async with app.pipeline:
        print(app.port, flush=True)
        await asyncio.to_thread(sys.stdin.read)
        await app.stop()


@contextmanager
def served(seconds: float) -> Iterator[tuple[str, int]]:
    """Target and process of such a server."""
    command = (sys.executable, "-m", "benchmarks.front_end", str(seconds))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        yield f"127.0.0.1:{process.stdout.readline().strip()}", process.pid
        process.stdin.close()


@dataclass(frozen=True, slots=True)
class Load:
    """What a number of streams gave. Times in seconds."""

    streams: int
    cpu_share: float
    latency_p50_s: float
    latency_p99_s: float
    jitter_p99_s: float
    late: int
    messages: int


async def _listen(channel: grpc.aio.Channel, arrivals: list[tuple[float, float]]) -> None:
    """One stream: (time of arrival, way) of each message."""
    call: Any = speech_pb2_grpc.SpeechServiceStub(channel).Converse()
    await call.write(pb.ConverseRequest(utterance_id="u", start=pb.Start()))
    await call.write(pb.ConverseRequest(utterance_id="u", text=pb.TextIncrement(text="This is heard.")))
    await call.write(pb.ConverseRequest(utterance_id="u", end=pb.End()))
    await call.done_writing()
    while (response := await call.read()) is not grpc.aio.EOF:
        if response.HasField("audio"):
            now_ns = time.monotonic_ns()
            sent_ns = int.from_bytes(response.audio.data[: 2 * STAMP_SAMPLES], "little")
            arrivals.append((now_ns / 1e9, (now_ns - sent_ns) / 1e9))


async def _load(target: str, pid: int, streams: int) -> Load:
    heard: list[list[tuple[float, float]]] = [[] for _ in range(streams)]
    async with grpc.aio.insecure_channel(target) as channel:
        begun_s, busy_s = time.monotonic(), cpu_s(pid)
        await asyncio.gather(*(_listen(channel, arrivals) for arrivals in heard))
        wall_s, busy_s = time.monotonic() - begun_s, cpu_s(pid) - busy_s
    settled = [arrivals[5:] for arrivals in heard]  # the burst of starts is not what is measured
    ways = [way for arrivals in settled for _, way in arrivals]
    gaps = [b - a - PERIOD_S for arrivals in settled for (a, _), (b, _) in pairwise(arrivals)]
    late = sum(
        at - arrivals[0][0] > number * PERIOD_S + LATE_S
        for arrivals in settled
        for number, (at, _) in enumerate(arrivals)
    )
    jitter = percentile([abs(gap) for gap in gaps], 0.99)
    return Load(streams, busy_s / wall_s, percentile(ways, 0.5), percentile(ways, 0.99), jitter, late, len(ways))


def measure(streams: int, seconds: float) -> Load:
    """One load on a fresh server."""
    with served(seconds) as (target, pid):
        return asyncio.run(_load(target, pid, streams))


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1])))
