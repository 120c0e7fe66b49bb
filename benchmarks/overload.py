"""A server with the demo voice at its capacity, then at four times that: what callers notice who are let in, or not.

    python -m benchmarks.overload

Callers speak one short text after the other; a refused one waits as long as it is told and tries again. `CAPACITY`
callers are what the talker has slots for here. The deployment says how late a first audio may be; what would be later
is refused at the door.
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
FIRST_AUDIO_S = 0.35
SETS = (f"talker.max_num_seqs={CAPACITY}", f"server.first_audio_timeout_s={FIRST_AUDIO_S}")
HEAD = ("callers", "spoken", "TTFA p50 ms", "p95 ms", "too late", "refused", "refusal p50 ms", "p99 ms")


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


def row(callers: int, run: Run) -> tuple[str, ...]:
    times = [f"{percentile(run.ttfa_s, share) * 1e3:.0f}" for share in (0.5, 0.95)]
    refusals = [f"{percentile(run.refused_s, share) * 1e3:.1f}" for share in (0.5, 0.99)]
    return (str(callers), str(len(run.ttfa_s)), *times, str(run.late), str(len(run.refused_s)), *refusals)


def main() -> None:
    sets = [word for each in SETS for word in ("--set", each)]
    with serving("--profile", "demo", "--log-level", "error", *sets) as server:
        runs = {callers: asyncio.run(load(server.target, callers)) for callers in (CAPACITY, CAPACITY * FACTOR)}
    print(table(HEAD, [row(callers, run) for callers, run in runs.items()]))
    at, over = (statistics.median(run.ttfa_s) for run in runs.values())
    print(f"TTFA of those let in, overloaded to at capacity: {over / at:.2f}")


if __name__ == "__main__":
    main()
