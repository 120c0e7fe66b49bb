"""`talkwire bench`: loads on a server and their figures."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict

from talkwire.bench import SENTENCES, Figures, run
from talkwire.cli_options import client, speech_options
from talkwire.errors import TalkwireError
from talkwire.listen import say
from talkwire.render import Progress, table

_HEAD = ("streams", "done", "failed", "TTFA p50 s", "p95 s", "first s", "RTF", "audio s/s", "C100")


async def bench(arguments: argparse.Namespace) -> None:
    """Runs the command: one utterance to warm up, then each load. Raises the first failure at the end."""
    options = speech_options(arguments)
    figures: list[Figures] = []
    failures: list[TalkwireError] = []
    async with client(arguments) as server:
        async with server.converse() as stream:
            await say(stream, SENTENCES[0], **options)
        with Progress(arguments.utterances * len(arguments.streams), "bench", sys.stderr) as progress:

            def on_done(error: TalkwireError | None) -> None:
                progress.advance()
                if error is not None:
                    failures.append(error)

            for streams in arguments.streams:
                load = run(server, streams, arguments.utterances, on_done=on_done, **options)
                figures.append(await load)
    print(json.dumps([asdict(item) for item in figures], indent=2) if arguments.json else report(figures))
    if failures:
        raise failures[0]


def report(figures: Sequence[Figures]) -> str:
    """The figures as a table."""
    return table(_HEAD, [_row(item) for item in figures])


def _row(item: Figures) -> tuple[str, ...]:
    counts = (str(item.streams), str(item.utterances), str(item.failed))
    times = (f"{item.ttfa_p50_s:.3f}", f"{item.ttfa_p95_s:.3f}", f"{item.first_payload_s:.3f}")
    return (*counts, *times, f"{item.real_time_factor:.3f}", f"{item.audio_s_per_s:.2f}", f"{item.c100:.0%}")
