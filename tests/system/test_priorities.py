"""Batch gives way to the interactive in real stages, and nobody hears that it did."""

from __future__ import annotations

import asyncio

from support.observed import Observed
from support.pcm import same
from talkwire import SpeechClient
from tools.server import serving

TEXT = "The old mill stands by the river. Twelve boats left the harbor, and the morning was cold and bright."
SHORT = "Who is there?"
URGENT = 6
SETS = ("--set", "talker.max_num_seqs=2", "--set", "server.metrics_port=0")


async def test_batch_gives_way_and_sounds_the_same() -> None:
    with serving("--profile", "demo", "--log-level", "warning", *SETS) as server:
        observed = Observed(server)
        async with SpeechClient(server.target) as client:
            alone = [await client.speak(TEXT, seed=seed, geometry="exact", priority="batch") for seed in (1, 2)]
            heard = asyncio.gather(
                *(client.speak(TEXT, seed=seed, geometry="exact", priority="batch") for seed in (1, 2))
            )
            for seed in range(URGENT):
                assert (await client.speak(SHORT, seed=seed)).audio
            for got, want in zip(await heard, alone, strict=True):
                assert same(got.audio, want.audio)
        assert observed.figures()["talkwire_preempted_segments_total"] > 0
        await observed.until_idle()
