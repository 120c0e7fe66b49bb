"""Many texts to files, without gRPC: the pipeline alone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from talkwire_pipeline import events
from talkwire_pipeline.deploy import Deploy
from talkwire_pipeline.errors import TalkwireError
from talkwire_pipeline.geometry import SAMPLE_RATE_HZ
from talkwire_pipeline.pipeline import Pipeline
from talkwire_pipeline.stages import Stages
from talkwire_server.audio import BYTES_PER_SAMPLE, pcm_s16le, wav_header


@dataclass(frozen=True, slots=True)
class Spoken:
    """One file: its audio's duration and the seconds it took; `fault` where it failed."""

    path: Path
    duration_s: float
    took_s: float
    fault: str = ""


async def synthesize(
    deploy: Deploy, texts: Sequence[str], folder: Path, console: Console, stages: Stages | None = None
) -> list[Spoken]:
    """Speaks every text into `folder`/0001.wav and so on, as many at once as the talker has slots."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    slots = asyncio.Semaphore(min(deploy.stages.talker.max_num_seqs, deploy.server.max_live_utterances))
    async with Pipeline(deploy, stages) as pipeline:
        with Progress(*columns, console=console) as progress:
            bar = progress.add_task("speaking", total=len(texts))

            async def one(number: int, text: str) -> Spoken:
                async with slots:
                    spoken = await _speak(pipeline, text, folder / f"{number:04d}.wav")
                progress.advance(bar)
                return spoken

            return await asyncio.gather(*(one(number, text) for number, text in enumerate(texts, 1)))


async def _speak(pipeline: Pipeline, text: str, path: Path) -> Spoken:
    begun = time.monotonic()
    data, fault = b"", ""
    try:
        data = await _pcm(pipeline, text)
    except TalkwireError as error:
        fault = error.message
    await asyncio.to_thread(path.write_bytes, wav_header(SAMPLE_RATE_HZ, len(data)) + data)
    return Spoken(path, len(data) / BYTES_PER_SAMPLE / SAMPLE_RATE_HZ, time.monotonic() - begun, fault)


async def _pcm(pipeline: Pipeline, text: str) -> bytes:
    """The text's audio. Raises the `TalkwireError` that it failed with."""
    utterance = pipeline.open()
    pieces: list[bytes] = []
    try:
        utterance.push(text)
    except TalkwireError:
        utterance.abort()
        raise
    utterance.end()
    async for event in utterance:
        if isinstance(event, events.Audio):
            pieces.append(pcm_s16le(event.samples))
        elif isinstance(event, events.Failed):
            raise event.error
    return b"".join(pieces)


def table(spoken: Sequence[Spoken]) -> Table:
    """Duration and real-time factor of every file, and of all."""
    rows = Table("file", "audio s", "took s", "RTF", "fault")
    for each in spoken:
        factor = f"{each.took_s / each.duration_s:.3f}" if each.duration_s else "-"
        rows.add_row(each.path.name, f"{each.duration_s:.2f}", f"{each.took_s:.2f}", factor, each.fault)
    return rows
