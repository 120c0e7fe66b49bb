"""A server with the demo voice at its capacity, then at four times that: what callers notice who are let in, or not.

    python -m benchmarks.overload

Callers speak one short text after the other; a refused one waits as long as it is told and tries again. `CAPACITY`
callers are what the talker has slots for here. Two limits keep the rest at the door: a number of live utterances, and a
time in which the first audio must come, `PATIENCE` times the median at capacity.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from dataclasses import dataclass, field

from talkwire import SpeechClient
from talkwire.bench import SENTENCES, percentile
from talkwire.errors import ResourceExhausted, TalkwireError
from talkwire.listen import say
from talkwire.render import table
from tools.server import serving

CAPACITY = 4
FACTOR = 4
RUN_S = 15.0
PATIENCE = 1.5
"""How late a first audio may be, by the median at capacity."""
HEAD = (
    "limit",
    "callers",
    "spoken",
    "TTFA p50 ms",
    "p95 ms",
    "of that at capacity",
    "too late",
    "refused",
    "p50 ms",
    "p99 ms",
)


@dataclass
class Run:
    """What the callers of one load saw; times in seconds."""

    ttfa_s: list[float] = field(default_factory=list)
    refused_s: list[float] = field(default_factory=list)
    late: int = 0


async def caller(client: SpeechClient, number: int, until_s: float, run: Run) -> None:
    async with client.converse() as stream:
        while time.monotonic() < until_s:
            begun = time.monotonic()
            try:
                heard = await say(stream, SENTENCES[number % len(SENTENCES)])
                run.ttfa_s.append(heard.ttfa_s)
            except ResourceExhausted as error:
                run.refused_s.append(time.monotonic() - begun)
                await asyncio.sleep(error.retry_after_s or 0.1)
            except TalkwireError:
                run.late += 1
            number += 1


async def load(target: str, callers: int) -> Run:
    run, until_s = Run(), time.monotonic() + RUN_S
    async with SpeechClient(target) as client:
        await asyncio.gather(*(caller(client, number, until_s, run) for number in range(callers)))
    return run


def measure(callers: int, *sets: str) -> Run:
    """A load on a server of its own."""
    words = [word for each in (f"talker.max_num_seqs={CAPACITY}", *sets) for word in ("--set", each)]
    with serving("--profile", "demo", "--log-level", "error", *words) as server:
        return asyncio.run(load(server.target, callers))


def row(limit: str, callers: int, run: Run, at_s: float) -> tuple[str, ...]:
    times = [f"{percentile(run.ttfa_s, share) * 1e3:.0f}" for share in (0.5, 0.95)]
    refusals = [f"{percentile(run.refused_s, share) * 1e3:.1f}" for share in (0.5, 0.99)]
    ratio = f"{statistics.median(run.ttfa_s) / at_s:.2f}"
    return (limit, str(callers), str(len(run.ttfa_s)), *times, ratio, str(run.late), str(len(run.refused_s)), *refusals)


def main() -> None:
    capacity = measure(CAPACITY)
    at_s = statistics.median(capacity.ttfa_s)
    limits = (f"max_live_utterances={CAPACITY}", f"first_audio_timeout_s={PATIENCE * at_s:.3f}")
    runs = {limit: measure(CAPACITY * FACTOR, f"server.{limit}") for limit in limits}
    overloaded = [row(limit, CAPACITY * FACTOR, run, at_s) for limit, run in runs.items()]
    print(table(HEAD, [row("none", CAPACITY, capacity, at_s), *overloaded]))


if __name__ == "__main__":
    main()
