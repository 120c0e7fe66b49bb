"""Load of a known kind on a server, and its figures."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Unpack

from talkwire.client import SpeechClient
from talkwire.errors import TalkwireError
from talkwire.listen import Heard, say
from talkwire.options import Options
from talkwire.playback import continuity

SENTENCES = (
    "Good morning, this is the front desk speaking.",
    "Your table by the window is ready whenever you are.",
    "The next train to the coast leaves from platform two.",
    "Please bring a warm coat, it gets cold after sunset.",
    "I have found three rooms that look out over the garden.",
    "Thank you for waiting, I will put you through now.",
)
"""What is spoken, in turn."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What one load gave. Times in seconds as the client saw them, network included."""

    streams: int
    """Utterances at the same time."""
    utterances: int
    """Utterances that finished."""
    failed: int
    """Utterances that did not."""
    ttfa_p50_s: float
    """First text out to first audio in."""
    ttfa_p95_s: float
    first_payload_s: float
    """Duration of the first audio event, median."""
    real_time_factor: float
    """Time to the end of an utterance for each second of its audio, median."""
    audio_s_per_s: float
    """Seconds of audio a second, all streams together."""
    c100: float
    """Share of utterances that a player with no extra buffer plays with no underrun over 100 ms."""


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` (0 to 1) of the values lie, between neighbours in proportion. 0 of none."""
    if not values:
        return 0.0
    ranked = sorted(values)
    low, part = divmod(share * (len(ranked) - 1), 1)
    high = min(int(low) + 1, len(ranked) - 1)
    return ranked[int(low)] + part * (ranked[high] - ranked[int(low)])


def summarise(streams: int, heard: Sequence[Heard], failed: int, wall_s: float) -> Figures:
    """The figures of one load that took `wall_s`."""
    ttfas = [item.ttfa_s for item in heard]
    return Figures(
        streams=streams,
        utterances=len(heard),
        failed=failed,
        ttfa_p50_s=percentile(ttfas, 0.5),
        ttfa_p95_s=percentile(ttfas, 0.95),
        first_payload_s=percentile([item.first_payload_s for item in heard], 0.5),
        real_time_factor=percentile([item.real_time_factor for item in heard], 0.5),
        audio_s_per_s=sum(item.speech.duration_s for item in heard) / wall_s if wall_s > 0 else 0.0,
        c100=continuity(item.underrun_s for item in heard),
    )


async def run(
    client: SpeechClient,
    streams: int,
    utterances: int,
    *,
    on_done: Callable[[TalkwireError | None], None] = lambda error: None,
    **options: Unpack[Options],
) -> Figures:
    """Speaks `utterances` sentences over `streams` streams that start at once, each one after the other.

    `on_done` is called after each, with its failure if it failed; a failed one is counted and the load goes on.
    """
    texts = islice(cycle(SENTENCES), utterances)
    heard: list[Heard] = []
    began_s = time.perf_counter()
    failures = await asyncio.gather(*(_worker(client, texts, heard, on_done, options) for _ in range(streams)))
    return summarise(streams, heard, sum(failures), time.perf_counter() - began_s)


async def _worker(
    client: SpeechClient,
    texts: Iterator[str],
    heard: list[Heard],
    on_done: Callable[[TalkwireError | None], None],
    options: Options,
) -> int:
    """One stream's share of the texts; returns how many failed."""
    failed = 0
    async with client.converse() as stream:
        for text in texts:
            try:
                heard.append(await say(stream, text, **options))
                on_done(None)
            except TalkwireError as error:
                failed += 1
                on_done(error)
    return failed
