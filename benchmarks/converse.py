"""A voice agent's stream: first sound while words still come, aborts, seams, and what the front end alone adds.

Run by `make bench`, or as `python -m benchmarks.converse`; takes about a minute and a half.

- first sound: words are pushed every 50 ms; from the first increment, and from the word that completed the first
  segment. Demo voice, one stream, real processes.
- abort: from the call of `Utterance.abort` to what each stage says that it has let go; and at a client, from the abort
  to the last audio and to the answer. Four others speak meanwhile.
- seams: a text of many sentences in one utterance, played as it comes: how much later than in time the audio behind a
  border came, how long it is quiet around a border, and the largest jump at a border against those inside.
- front end: see `benchmarks.front_end`.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from benchmarks import front_end
from talkwire import Audio, SpeechClient, Timing
from talkwire.bench import SENTENCES, percentile
from talkwire.render import table
from talkwire.stream import Stream
from talkwire.utterance import Utterance
from talkwire.v1 import speech_pb2 as pb
from talkwire_pipeline.deploy import Deploy, load
from talkwire_pipeline.messages import Message, Released, StageName
from talkwire_pipeline.pipeline import Pipeline
from talkwire_pipeline.stages import OnMessage, OnState
from talkwire_pipeline.supervisor import Supervisor
from tools.server import serving

WORD_S = 0.05
ABORTS = 100
NEIGHBOURS = 4
TEXT = " ".join(SENTENCES)
STREAMS = (1, 64, 256)
FRONT_END_S = 6.0
QUIET = 10 ** (-50 / 20)


def quantiles(values: Sequence[float]) -> tuple[str, ...]:
    """Median, 99th percentile and largest of seconds, in ms."""
    return tuple(f"{value * 1e3:.1f}" for value in (percentile(values, 0.5), percentile(values, 0.99), max(values)))


# ---- first sound


async def first_sound(stream: Stream, text: str) -> tuple[float, float]:
    """Seconds to the first audio from the first increment, and from the one that completed the first segment."""
    pushed: list[tuple[int, float]] = []
    heard_s = 0.0
    async with stream.utterance(seed=1) as utterance:
        pushing = asyncio.create_task(_push_words(utterance, text, pushed))
        async for event in utterance:
            if isinstance(event, Audio):
                heard_s = heard_s or time.perf_counter()
            elif isinstance(event, Timing):
                end = next(span.text_end for span in event.spans if span.kind == pb.SPAN_KIND_SEGMENT)
                break
        pushing.cancel()
        with suppress(asyncio.CancelledError):
            await pushing
        await utterance.abort()
    complete_s = next(at_s for length, at_s in pushed if length >= end)
    return heard_s - pushed[0][1], heard_s - complete_s


async def _push_words(utterance: Utterance, text: str, pushed: list[tuple[int, float]]) -> None:
    """Notes the length of the text so far, and when, with each word."""
    length = 0
    for word in text.split():
        length += len(word) + 1
        pushed.append((length, time.perf_counter()))
        await utterance.push(word + " ")
        await asyncio.sleep(WORD_S)
    await utterance.end()


# ---- abort


class Timed(Supervisor):
    """The stages, and when each said `Released`."""

    def __init__(self, deploy: Deploy) -> None:
        super().__init__(deploy)
        self.released: list[tuple[StageName, float]] = []

    async def start(self, on_message: OnMessage, on_state: OnState) -> None:
        def heard(stage: StageName, message: Message) -> None:
            if isinstance(message, Released):
                self.released.append((stage, time.perf_counter()))
            on_message(stage, message)

        await super().start(heard, on_state)


async def speak_on(pipeline: Pipeline) -> None:
    """A neighbour: speaks without end."""
    while True:
        utterance = pipeline.open()
        utterance.push(TEXT)
        utterance.end()
        await _drain(utterance)


async def stage_aborts() -> dict[StageName, list[float]]:
    """Seconds from an abort to `Released` of each stage."""
    deploy, dice = load("demo", environment={}), random.Random(1)
    stages = Timed(deploy)
    took: dict[StageName, list[float]] = {"talker": [], "codec": []}
    async with Pipeline(deploy, stages) as pipeline:
        neighbours = [asyncio.create_task(speak_on(pipeline)) for _ in range(NEIGHBOURS)]
        for _ in range(ABORTS):
            utterance = pipeline.open()
            utterance.push(TEXT)
            listening = asyncio.create_task(_drain(utterance))
            await asyncio.sleep(dice.uniform(0.05, 0.4))
            stages.released.clear()
            begun_s = time.perf_counter()
            await utterance.abort()
            for stage, at_s in stages.released:
                took[stage].append(at_s - begun_s)
            await listening
        for neighbour in neighbours:
            neighbour.cancel()
        await asyncio.gather(*neighbours, return_exceptions=True)
    return took


async def _drain(utterance: Any) -> None:
    async for _ in utterance:
        pass


async def client_abort(stream: Stream, after_s: float) -> tuple[float, float]:
    """Seconds from an abort to the last audio of the utterance (0: none came any more) and to the answer."""
    utterance = stream.utterance()
    arrivals: list[float] = []
    deliver = utterance.deliver

    def heard(event: Any) -> None:
        if isinstance(event, pb.Audio):
            arrivals.append(time.perf_counter())
        deliver(event)

    utterance.deliver = heard  # type: ignore[method-assign]
    await utterance.push(TEXT)
    await asyncio.sleep(after_s)
    begun_s = time.perf_counter()
    await utterance.abort()
    answered_s = time.perf_counter()
    late = [at_s - begun_s for at_s in arrivals if at_s > begun_s]
    return max(late, default=0.0), answered_s - begun_s


# ---- seams


async def seams(stream: Stream) -> dict[str, list[float]]:
    """Of each border between segments: lateness and quiet in seconds; jumps there and inside, of full scale."""
    utterance = stream.utterance(seed=3)
    begun_s, pieces, borders = 0.0, [], []
    arrivals: list[tuple[int, float]] = []
    await utterance.push(TEXT)
    await utterance.end()
    async for event in utterance:
        if isinstance(event, Audio):
            begun_s = begun_s or time.perf_counter()
            arrivals.append((event.first_sample, time.perf_counter() - begun_s))
            pieces.append(np.frombuffer(event.data, "<i2"))
        elif isinstance(event, Timing):
            borders += [span.start_sample for span in event.spans if span.kind == pb.SPAN_KIND_SEGMENT]
    samples = np.concatenate(pieces).astype(np.float64) / 32768
    jumps = np.abs(np.diff(samples))
    inner = sorted(border for border in borders if border > 0)
    found: dict[str, list[float]] = {"late": [], "quiet": [], "jump": [], "inside": [float(np.quantile(jumps, 0.99))]}
    for border in inner:
        at_s = next(at for first, at in reversed(arrivals) if first <= border)
        found["late"].append(max(0.0, at_s - border / 24_000))
        loud = np.flatnonzero(np.abs(samples) >= QUIET)
        found["quiet"].append(float(loud[loud >= border].min() - loud[loud < border].max()) / 24_000)
        found["jump"].append(float(jumps[border - 1]))
    return found


# ---- all


async def agent(target: str) -> None:
    async with SpeechClient(target) as client, client.converse() as stream:
        await first_sound(stream, SENTENCES[0])
        heard = [await first_sound(stream, text) for text in SENTENCES * 3]
        rows = [
            ("TTFA from the first increment", *quantiles([each[0] for each in heard])),
            ("TTFA from the first segment's last word", *quantiles([each[1] for each in heard])),
        ]
        dice = random.Random(2)
        drops = [await client_abort(stream, dice.uniform(0.05, 0.6)) for _ in range(ABORTS)]
        rows.append(("abort to silence, at the client", *quantiles([each[0] for each in drops])))
        rows.append(("abort to its answer, at the client", *quantiles([each[1] for each in drops])))
        print(table(("one stream, demo voice", "p50 ms", "p99 ms", "max ms"), rows), flush=True)
        found = await seams(stream)
    rows = [
        ("audio behind it comes late by", *quantiles(found["late"])),
        ("quiet around it", *quantiles(found["quiet"])),
    ]
    print("\n" + table((f"{len(found['late'])} borders of segments", "p50 ms", "p99 ms", "max ms"), rows))
    print(f"jump at a border: at most {max(found['jump']):.4f} of full scale; p99 inside {found['inside'][0]:.4f}\n")


def main() -> None:
    with serving("--profile", "demo", "--log-level", "warning") as server:
        asyncio.run(agent(server.target))
    took = asyncio.run(stage_aborts())
    rows = [(f"abort to free {name} slot", *quantiles(values)) for name, values in took.items()]
    print(table((f"beside {NEIGHBOURS} that speak", "p50 ms", "p99 ms", "max ms"), rows) + "\n", flush=True)
    head = ("front end alone, streams", "CPU %", "way p50 ms", "way p99 ms", "jitter p99 ms", "late", "messages")
    loads = [front_end.measure(streams, FRONT_END_S) for streams in STREAMS]
    print(table(head, [_load_row(each) for each in loads]))


def _load_row(each: front_end.Load) -> tuple[str, ...]:
    times = (each.latency_p50_s, each.latency_p99_s, each.jitter_p99_s)
    share = f"{each.cpu_share * 100:.0f}"
    return (str(each.streams), share, *(f"{time * 1e3:.2f}" for time in times), str(each.late), str(each.messages))


if __name__ == "__main__":
    main()
