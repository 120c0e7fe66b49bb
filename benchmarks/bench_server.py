"""A server with the demo voice under load, from the outside: start-up, `talkwire bench`, memory, idle CPU.

Run by `make bench`, or as `python -m benchmarks.bench_server [geometry ...]`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from talkwire.render import table
from tools.server import serving

GEOMETRIES = ("exact-fast", "exact")
STREAMS = "1,2,4"
IDLE_S = 5.0
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def name(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


def rss_mib(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def cpu_s(pid: int) -> float:
    """Seconds of CPU so far, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def main(geometries: tuple[str, ...]) -> None:
    with serving("--profile", "demo", "--log-level", "warning") as server:
        print(f"start to SERVING: {server.start_s:.1f} s")
        for geometry in geometries:
            print(f"\ntalkwire bench, geometry {geometry}", flush=True)
            command = (sys.executable, "-m", "talkwire.cli", "bench", "--target", server.target)
            subprocess.run([*command, "--streams", STREAMS, "--geometry", geometry], check=True)
        pids = [server.process.pid, *children(server.process.pid)]
        before = {pid: cpu_s(pid) for pid in pids}
        time.sleep(IDLE_S)
        idle = {pid: (cpu_s(pid) - before[pid]) / IDLE_S for pid in pids}
        rows = [(name(pid), f"{rss_mib(pid):.0f}", f"{idle[pid]:.1%}") for pid in pids]
        print("\n" + table(("process", "RSS MiB", "CPU idle"), rows))


if __name__ == "__main__":
    main(tuple(sys.argv[1:]) or GEOMETRIES)
