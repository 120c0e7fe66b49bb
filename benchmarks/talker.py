"""The talker with the demo voice on one thread: start-up, time to the first row, then a step by part.

Run by `make bench`, or as `python -m benchmarks.talker [checkpoint]`. A step's parts are the backbone (embedding,
layers, head), the sampling (`TalkerState.sample`) and the rest: lookup of codes, batching, what comes of the rows.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from benchmarks.spread import spread
from talkwire.render import table
from talkwire_pipeline.checkpoint import resolve_checkpoint
from talkwire_pipeline.deploy import Deploy, load
from talkwire_pipeline.geometry import CODEBOOKS, PRESETS
from talkwire_pipeline.messages import Message, Open, PutReference
from talkwire_pipeline.sampling import Sampling
from talkwire_pipeline.talker import stage
from talkwire_pipeline.talker.loop import TalkerLoop
from talkwire_pipeline.talker.qwen3 import Backbone
from talkwire_pipeline.talker.state import TalkerState
from talkwire_pipeline.text.prompt import Prompt, PromptBuilder

BATCHES = (1, 4, 8)
RUNS = 5
STEPS = 40
"""Steps of a run; a figure of a run is their mean."""
SETTLED = 40
"""Rows before the first run."""
REFERENCE_FRAMES = 75
SHORT = "Good morning, this is the front desk speaking."
LONG = (
    "The next train to the coast leaves from platform two, and it stops at every village on the way, so please bring "
    "a warm coat and something to read, because it gets cold after sunset and the journey is a long and quiet one."
)


class Watch:
    """Sums the time that is spent in methods of a class."""

    def __init__(self, owner: type, *names: str) -> None:
        self.spent_s = 0.0
        for name in names:
            setattr(owner, name, self._timed(getattr(owner, name)))

    def _timed(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any) -> Any:
            begun_s = time.perf_counter()
            result = method(*arguments)
            self.spent_s += time.perf_counter() - begun_s
            return result

        return timed


def opening(number: int, prompt: Prompt, max_rows: int) -> Open:
    """A generation with the usual sampling and a seed of its own; reference 1 where the prompt has one."""
    return Open(
        generation=number,
        prompt=prompt.ids,
        reference=1 if prompt.reference_at else 0,
        reference_at=prompt.reference_at,
        sampling=Sampling(seed=number),
        max_rows=max_rows,
        geometry=PRESETS["exact"],
        credit_samples=0,
    )


class Bench:
    """A talker's loop that speaks to nobody."""

    def __init__(self, loop: TalkerLoop) -> None:
        self.loop = loop
        self.backbone = Watch(Backbone, "embed", "prefill", "decode", "logits")
        self.sampling = Watch(TalkerState, "sample")
        self._number = 0

    def open(self, prompt: Prompt, max_rows: int) -> None:
        self._number += 1
        self.loop.handle(opening(self._number, prompt, max_rows))

    def finish(self) -> None:
        while self.loop.step():
            pass

    def first_row_ms(self, prompt: Prompt) -> float:
        """From a generation's `Open` to its first row, with nobody beside it."""
        begun_s = time.perf_counter()
        self.open(prompt, 1)
        self.finish()
        return (time.perf_counter() - begun_s) * 1e3

    def run(self) -> tuple[float, float, float]:
        """Milliseconds of a step in all, in the backbone, in the sampling."""
        clocks = time.perf_counter(), self.backbone.spent_s, self.sampling.spent_s
        for _ in range(STEPS):
            self.loop.step()
        ends = time.perf_counter(), self.backbone.spent_s, self.sampling.spent_s
        step, backbone, sampling = ((end - begun) * 1e3 / STEPS for begun, end in zip(clocks, ends, strict=True))
        return step, backbone, sampling


def first_row(bench: Bench, what: str, prompt: Prompt) -> tuple[str, ...]:
    bench.first_row_ms(prompt)
    times_ms = [bench.first_row_ms(prompt) for _ in range(RUNS)]
    return what, f"{prompt.positions}", spread(times_ms)


def step(bench: Bench, prompt: Prompt, batch: int) -> tuple[str, ...]:
    for _ in range(batch):
        bench.open(prompt, SETTLED + batch + RUNS * STEPS + 1)
    for _ in range(SETTLED + batch):  # newcomers are prefilled one after the other
        bench.loop.step()
    runs = [bench.run() for _ in range(RUNS)]
    if bench.loop.stats()["live_generations"] != batch:
        raise RuntimeError("a generation ended before it was measured: a longer text is needed")
    bench.finish()
    parts = [(whole, backbone, sampling, whole - backbone - sampling) for whole, backbone, sampling in runs]
    return str(batch), *(spread(part, 2) for part in zip(*parts, strict=True))


def build(deploy: Deploy) -> TalkerLoop:
    """Loads and warms up as the stage does; prints how long that took."""
    torch.set_num_threads(deploy.stages.talker.threads)
    begun_s = time.perf_counter()
    loaded = stage.load(deploy)
    loaded_s = time.perf_counter()
    stage.warm_up(loaded)
    print(f"talker: load {loaded_s - begun_s:.2f} s, warm-up {time.perf_counter() - loaded_s:.2f} s")
    return loaded.loop(_nobody, _nobody)


def _nobody(message: Message) -> None:
    pass


def main(name: str) -> None:
    deploy = load("demo", overrides=[f"model.checkpoint={name}"])
    prompts = PromptBuilder(resolve_checkpoint(name))
    bench = Bench(build(deploy))
    bench.loop.handle(PutReference(reference=1, codes=np.zeros((REFERENCE_FRAMES, CODEBOOKS), np.int16)))
    rows = [
        first_row(bench, "a sentence", prompts.build(SHORT)),
        first_row(bench, "with 3 s of a voice", prompts.build(SHORT, SHORT, REFERENCE_FRAMES)),
        first_row(bench, "a long sentence", prompts.build(LONG)),
    ]
    print(table(("prompt", "positions", "ms to the first row"), rows), flush=True)
    rows = [step(bench, prompts.build(LONG), batch) for batch in BATCHES]
    print("\n" + table(("batch", "step ms", "backbone", "sampling", "rest"), rows))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "demo")
