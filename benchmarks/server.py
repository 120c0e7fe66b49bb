"""A server with the demo voice under load, from the outside: start-up, loads of `talkwire bench`, memory, CPU.

Run by `make bench`, or as `python -m benchmarks.server [geometry ...]`. Each figure is the median of several
starts, each with all loads, and behind it the least and the most of them.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, cast

from benchmarks.processes import children, cpu_s, rss_mib
from benchmarks.spread import spread
from talkwire import SpeechClient, bench
from talkwire.bench import Figures
from talkwire.render import table
from tools.server import serving

Preset = Literal["exact", "exact-fast", "v1", "v2"]
GEOMETRIES: tuple[Preset, ...] = ("exact-fast", "exact")
STREAMS = (1, 2, 4)
UTTERANCES = 8
STARTS = 3
IDLE_S = 3.0

LOAD_HEAD = ("streams", "done", "TTFA p50 ms", "p95 ms", "first s", "RTF", "audio s/s", "C100 %")
PROCESS_HEAD = ("process", "RSS MiB", "CPU ms per s of audio", "CPU ms per s idle")


# ---- processes


def processes(server: int) -> dict[str, int]:
    """Ids of the server and its stages by name."""
    stages = {Path(f"/proc/{pid}/comm").read_text().strip(): pid for pid in children(server)}
    return {"server": server, **dict(sorted(stages.items()))}


# ---- one start


@dataclass
class Run:
    """What one start gave.

    Attributes:
        start_s: to SERVING.
        loads: by geometry, one for each of `STREAMS`.
        audio_s: what they spoke together.
        rss_mib: of each process, after them.
        busy_s: CPU of each process meanwhile.
        idle_s: CPU of each process in `IDLE_S` behind them.
    """

    start_s: float
    loads: dict[Preset, list[Figures]] = field(default_factory=dict)
    audio_s: float = 0.0
    rss_mib: dict[str, float] = field(default_factory=dict)
    busy_s: dict[str, float] = field(default_factory=dict)
    idle_s: dict[str, float] = field(default_factory=dict)


async def speak(run: Run, target: str, geometry: Preset) -> None:
    """All loads of a geometry; one utterance before them lets everything settle."""
    async with SpeechClient(target) as client:
        for streams in (0, *STREAMS):
            begun_s = time.perf_counter()
            figures = await bench.run(client, max(streams, 1), UTTERANCES if streams else 1, geometry=geometry)
            run.audio_s += figures.audio_s_per_s * (time.perf_counter() - begun_s)
            if streams:
                run.loads.setdefault(geometry, []).append(figures)


def measure(geometries: Sequence[Preset]) -> Run:
    with serving("--profile", "demo", "--log-level", "warning") as server:
        run = Run(server.start_s)
        pids = processes(server.process.pid)
        ready = {name: cpu_s(pid) for name, pid in pids.items()}
        for geometry in geometries:
            asyncio.run(speak(run, server.target, geometry))
        spoke = {name: cpu_s(pid) for name, pid in pids.items()}
        time.sleep(IDLE_S)
        for name, pid in pids.items():
            run.rss_mib[name] = rss_mib(pid)
            run.busy_s[name] = spoke[name] - ready[name]
            run.idle_s[name] = cpu_s(pid) - spoke[name]
    return run


# ---- all of them


def load_row(loads: Sequence[Figures]) -> tuple[str, ...]:
    """The loads with so many streams."""
    done = f"{sum(load.utterances for load in loads)}/{len(loads) * UTTERANCES}"
    return (
        str(loads[0].streams),
        done,
        spread([load.ttfa_p50_s * 1e3 for load in loads], 0),
        spread([load.ttfa_p95_s * 1e3 for load in loads], 0),
        spread([load.first_payload_s for load in loads], 2),
        spread([load.real_time_factor for load in loads], 3),
        spread([load.audio_s_per_s for load in loads], 1),
        spread([load.c100 * 100 for load in loads], 0),
    )


def process_row(name: str, runs: Sequence[Run]) -> tuple[str, ...]:
    memory = spread([run.rss_mib[name] for run in runs], 0)
    busy = spread([run.busy_s[name] / run.audio_s * 1e3 for run in runs], 0)
    return name, memory, busy, spread([run.idle_s[name] / IDLE_S * 1e3 for run in runs])


def main(geometries: Sequence[Preset]) -> None:
    runs = [measure(geometries) for _ in range(STARTS)]
    print(f"server: start to SERVING {spread([run.start_s for run in runs])} s")
    for geometry in geometries:
        print(f"\ntalkwire bench, geometry {geometry}")
        print(table(LOAD_HEAD, [load_row(loads) for loads in zip(*(run.loads[geometry] for run in runs), strict=True)]))
    print("\n" + table(PROCESS_HEAD, [process_row(name, runs) for name in runs[0].rss_mib]))


if __name__ == "__main__":
    main([cast(Preset, name) for name in sys.argv[1:]] or GEOMETRIES)
