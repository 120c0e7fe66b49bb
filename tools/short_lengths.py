"""Measures how long the demo voice takes for short texts; made `tests/system/short_lengths.tsv`.

Run as `python -m tools.short_lengths > tests/system/short_lengths.tsv` in the root of the checkout, after a change of
the voice only: the test holds the server to the table, not the table to the server.
"""

from __future__ import annotations

import asyncio
import statistics
from pathlib import Path

from talkwire import SpeechClient, Stream
from talkwire.listen import say
from tools.server import serving

TEXTS = Path("training/demo_voice/second/short_eval.txt")
SEEDS = range(1000, 1009)
"""None of the seeds that the test takes."""
HEAD = f"""\
# How long the demo voice takes for forty texts of one to three words, half of them unseen in its training: the median
# of {len(SEEDS)} seeds, each text alone, by `python -m tools.short_lengths`. Its README compares them with the voice
# that it was trained on: 0.0 s beyond that one on average, 0.12 s at most.
# text\tseconds\tshortest\tlongest"""


async def durations_s(stream: Stream, text: str) -> list[float]:
    """Length of the text in seconds with each of the seeds."""
    return [(await say(stream, text, seed=seed)).speech.duration_s for seed in SEEDS]


async def measure(target: str, texts: list[str]) -> None:
    """Prints the table."""
    print(HEAD)
    async with SpeechClient(target) as client, client.converse() as stream:
        for text in texts:
            found = await durations_s(stream, text)
            print(f"{text}\t{statistics.median(found):.2f}\t{min(found):.2f}\t{max(found):.2f}", flush=True)


if __name__ == "__main__":
    with serving("--profile", "demo", "--log-level", "warning") as server:
        asyncio.run(measure(server.target, TEXTS.read_text(encoding="utf-8").splitlines()))
