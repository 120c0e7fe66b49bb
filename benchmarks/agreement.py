"""How far the runners draw the same rows: 24 generations of different lengths, 16 at a time, some of them aborted.

    python -m benchmarks.agreement --profile higgs-v3-h200 --set model.checkpoint=FOLDER --runners embedded,v1,v2

Each runner has a process of its own; the first is what the others are compared with. From the first draw on that
differs a generation goes its own way, so a runner's share is that of the rows before it. In float32 on a GPU, Triton's
attention multiplies in tf32 unless TRITON_F32_DEFAULT=ieee is in the environment.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from talkwire.bench import SENTENCES
from talkwire.render import table

GENERATIONS = 24
AT_ONCE = 16
HEAD = ("runner", "generations", "equal to the end", "rows", "equal rows", "share %")
Spoken = dict[str, list[list[int]]]
"""Rows by generation."""


def length(number: int) -> int:
    """The most rows of a generation."""
    return 40 + 12 * number


def abort_at(number: int) -> int:
    """After how many rows a generation is aborted; 0: never."""
    return 20 + number if number % 5 == 4 else 0


@dataclass
class Listener:
    """In the codec's place: keeps the rows of each generation, and which ones have ended."""

    rows: dict[int, list[list[int]]] = field(default_factory=dict)
    ended: set[int] = field(default_factory=set)

    def __call__(self, message: Any) -> None:
        from talkwire_pipeline.messages import End, Rows

        if isinstance(message, Rows):
            for generation, codes in zip(message.generations.tolist(), message.codes.tolist(), strict=True):
                self.rows.setdefault(generation, []).append(codes)
        elif isinstance(message, End):
            self.ended.add(message.generation)


def speak(profile: str, sets: Sequence[str]) -> Spoken:
    """Rows of the generations that were not aborted; runs in a process of its own."""
    from benchmarks.talker import opening
    from talkwire_pipeline.checkpoint import resolve_checkpoint
    from talkwire_pipeline.deploy import load
    from talkwire_pipeline.messages import Abort
    from talkwire_pipeline.talker import stage
    from talkwire_pipeline.text.prompt import PromptBuilder

    deploy, listener = load(profile, overrides=sets), Listener()
    loaded = stage.load(deploy)
    stage.warm_up(loaded)
    loop = loaded.loop(lambda message: None, listener)
    prompts = PromptBuilder(resolve_checkpoint(deploy.model.checkpoint))
    waiting = list(range(1, GENERATIONS + 1))
    while waiting or len(listener.ended) < GENERATIONS:
        while waiting and GENERATIONS - len(waiting) - len(listener.ended) < AT_ONCE:
            number = waiting.pop(0)
            loop.handle(opening(number, prompts.build(SENTENCES[number % len(SENTENCES)]), length(number)))
        loop.step()
        for number, rows in listener.rows.items():
            if number not in listener.ended and 0 < abort_at(number) <= len(rows):
                loop.handle(Abort(generation=number))
    return {str(number): rows for number, rows in listener.rows.items() if not abort_at(number)}


def spoken_by(runner: str, options: argparse.Namespace) -> Spoken:
    """The same from a child process."""
    sets = [word for item in options.set for word in ("--set", item)]
    command = [sys.executable, "-m", "benchmarks.agreement", "--rows-of", runner, "--profile", options.profile, *sets]
    child = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    rows: Spoken = json.loads(child.stdout.splitlines()[-1])
    return rows


def alike(ours: list[list[int]], theirs: list[list[int]]) -> int:
    """Rows before the first one that differs."""
    pairs = enumerate(zip(ours, theirs, strict=False))
    return next((row for row, (one, other) in pairs if one != other), min(len(ours), len(theirs)))


def compared(runner: str, ours: Spoken, theirs: Spoken) -> tuple[str, ...]:
    """A row of the table."""
    total = sum(map(len, theirs.values()))
    equal = sum(alike(ours[number], rows) for number, rows in theirs.items())
    whole = sum(ours[number] == rows for number, rows in theirs.items())
    return runner, str(len(theirs)), str(whole), str(total), str(equal), f"{100 * equal / total:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--profile", default="demo")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--runners", default="embedded,v1")
    parser.add_argument("--rows-of", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rows_of:
        print(json.dumps(speak(options.profile, [*options.set, f"talker.model_runner={options.rows_of}"])))
        sys.stdout.flush()
        os._exit(0)  # an engine's threads need not be waited for
    runners = options.runners.split(",")
    spoken = {runner: spoken_by(runner, options) for runner in runners}
    print(f"compared with {runners[0]}")
    print(table(HEAD, [compared(runner, spoken[runner], spoken[runners[0]]) for runner in runners[1:]]))


if __name__ == "__main__":
    main()
