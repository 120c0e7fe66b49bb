"""The runners of the talker side by side on one checkpoint: steps of the talker alone, then loads on a whole server.

    python -m benchmarks.runners --profile higgs-v3-h200 --set model.checkpoint=FOLDER --runners embedded,v1,v2

Not part of `make bench`: it is meant for a GPU. Each runner has processes of its own. Steps: `--slots` generations that
must not end before, each figure over `STEPS` steps. Loads: those of `talkwire bench`, the second of two runs, since
the first compiles what it meets. Memory is what the device has in use, by `nvidia-smi`, with the server idle.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from talkwire import SpeechClient, bench
from talkwire.bench import Figures
from talkwire.render import table
from tools.server import serving

STEPS = 200
SETTLED = 40
"""Steps before the first that counts: prefill, and what is compiled on the way."""
STEP_HEAD = ("runner", "slots", "step p50 ms", "p99 ms", "first row ms", "start s")
MEMORY_HEAD = ("runner", "weights GiB", "KV cache GiB", "graphs GiB", "peak GiB")
LOAD_HEAD = ("runner", "streams", "done", "TTFA p50 ms", "p95 ms", "RTF", "audio s/s", "C100 %", "memory GiB")


# ---- steps, in a process of its own


def measure_steps(profile: str, sets: Sequence[str], slots: Sequence[int]) -> tuple[list[tuple[str, ...]], list[str]]:
    """Rows of the tables of one runner; runs in a process of its own."""
    from benchmarks.talker import LONG, opening
    from talkwire_pipeline.checkpoint import resolve_checkpoint
    from talkwire_pipeline.deploy import load
    from talkwire_pipeline.talker import stage
    from talkwire_pipeline.text.prompt import PromptBuilder

    deploy = load(profile, overrides=sets)
    begun_s = time.perf_counter()
    loaded = stage.load(deploy)
    stage.warm_up(loaded)
    start_s = time.perf_counter() - begun_s
    loop = loaded.loop(lambda message: None, lambda message: None)
    prompt = PromptBuilder(resolve_checkpoint(deploy.model.checkpoint)).build(LONG)
    rows: list[tuple[str, ...]] = []
    number = 0
    for count in slots:
        before, first_s = loop.stats()["rows_total"], time.perf_counter()
        for _ in range(count):
            number += 1
            loop.handle(opening(number, prompt, SETTLED + STEPS + count + 40))
        while loop.stats()["rows_total"] == before and loop.step():
            pass
        first_s = time.perf_counter() - first_s
        for _ in range(SETTLED + count):
            loop.step()
        took_s = []
        for _ in range(STEPS):
            step_s = time.perf_counter()
            loop.step()
            took_s.append(time.perf_counter() - step_s)
        if loop.stats()["live_generations"] != count:
            raise RuntimeError("a generation ended before it was measured")
        while loop.step():
            pass
        p50, p99 = statistics.median(took_s), bench.percentile(took_s, 0.99)
        name = deploy.runner.model_runner
        rows.append(
            (name, str(count), f"{p50 * 1e3:.2f}", f"{p99 * 1e3:.2f}", f"{first_s * 1e3:.0f}", f"{start_s:.0f}")
        )
    return rows, [deploy.runner.model_runner, *memory_of(loaded)]


def memory_of(loaded: Any) -> tuple[str, ...]:
    """What the talker takes of its device: numbers, keys and values, pools of graphs, most at once; "-" on a CPU."""
    import torch

    if loaded.device.type != "cuda":
        return ("-",) * 4
    segments = torch.cuda.memory_snapshot()  # type: ignore[no-untyped-call]
    graphs = sum(each["total_size"] for each in segments if tuple(each["segment_pool_id"]) != (0, 0))
    weights = loaded.parameters * 2 if loaded.options.dtype == "bfloat16" else loaded.parameters * 4
    sizes = (weights, cache_bytes(loaded.runner), graphs, torch.cuda.max_memory_reserved())
    return tuple(f"{size / 2**30:.2f}" for size in sizes)


def cache_bytes(runner: Any) -> int:
    """Of keys and values, for a runner of either kind."""
    if not hasattr(runner, "_client"):
        return int(runner._backbone._cache.nbytes)
    worker = runner._client.engine_core.model_executor.driver_worker.worker
    return sum({tensor.data_ptr(): tensor.nbytes for tensor in worker.model_runner.kv_caches}.values())


Measured = tuple[list[tuple[str, ...]], list[tuple[str, ...]]]
"""Rows of steps and of memory."""


def steps_of(runner: str, options: argparse.Namespace) -> Measured:
    """The same from a child process."""
    arguments = ["--steps-of", runner, "--profile", options.profile, "--slots", options.slots]
    sets = [word for item in options.set for word in ("--set", item)]
    child = subprocess.run(
        [sys.executable, "-m", "benchmarks.runners", *arguments, *sets], stdout=subprocess.PIPE, text=True, check=False
    )
    if child.returncode:
        print(f"{runner}: the steps could not be measured", flush=True)
        return [], []
    steps, memory = json.loads(child.stdout.splitlines()[-1])
    return [tuple(row) for row in steps], [tuple(memory)]


# ---- loads


async def loads(target: str, streams: Sequence[int]) -> list[Figures]:
    figures = []
    async with SpeechClient(target) as client:
        for count in streams:
            for _ in range(2):
                last = await bench.run(client, count, 2 * count)
            figures.append(last)
    return figures


def memory_gib() -> float:
    """Of the first device, in use; 0 where nothing says."""
    if shutil.which("nvidia-smi") is None:
        return 0.0
    command = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "--id=0"]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout) / 1024


def loads_of(runner: str, options: argparse.Namespace) -> list[tuple[str, ...]]:
    sets = [word for item in (*options.set, f"talker.model_runner={runner}") for word in ("--set", item)]
    with serving("--profile", options.profile, "--log-level", "warning", *sets) as server:
        memory = memory_gib()
        figures = asyncio.run(loads(server.target, [int(count) for count in options.streams.split(",")]))
    return [
        (
            runner,
            str(each.streams),
            f"{each.utterances}/{2 * each.streams}",
            f"{each.ttfa_p50_s * 1e3:.0f}",
            f"{each.ttfa_p95_s * 1e3:.0f}",
            f"{each.real_time_factor:.3f}",
            f"{each.audio_s_per_s:.1f}",
            f"{each.c100 * 100:.0f}",
            f"{memory:.1f}",
        )
        for each in figures
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--profile", default="demo")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--runners", default="embedded,v1,v2")
    parser.add_argument("--slots", default="1,4,16,64")
    parser.add_argument("--streams", default="1,4,16,64")
    parser.add_argument("--steps-of", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.steps_of:
        sets = [*options.set, f"talker.model_runner={options.steps_of}"]
        print(json.dumps(measure_steps(options.profile, sets, [int(count) for count in options.slots.split(",")])))
        sys.stdout.flush()
        os._exit(0)  # an engine's threads need not be waited for
    runners = options.runners.split(",")
    measured = [steps_of(runner, options) for runner in runners]
    print(table(STEP_HEAD, [row for steps, _ in measured for row in steps]) + "\n", flush=True)
    print(table(MEMORY_HEAD, [row for _, memory in measured for row in memory]) + "\n", flush=True)
    print(table(LOAD_HEAD, [row for runner in runners for row in loads_of(runner, options)]))


if __name__ == "__main__":
    main()
