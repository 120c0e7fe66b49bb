"""Asks a real Prometheus about a recorded scrape."""

from __future__ import annotations

import json
import subprocess
import tempfile
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tools.dashboards.prometheus import MISSING, find, promtool
from tools.dashboards.queries import scoped

STOP_S = 20.0
"""A Prometheus that has not left by then is killed."""


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a panel: `times_s` since 1970, and a value at each."""

    labels: dict[str, str]
    times_s: list[float]
    values: list[float]


@dataclass(frozen=True, slots=True)
class Replay:
    """A Prometheus with the record, from `begin_s` to `end_s`."""

    url: str
    begin_s: float
    end_s: float

    def ask(self, expr: str, rate_s: int, step_s: float) -> list[Series]:
        """What a panel's expression gives over the whole record, for all servers.

        `rate_s` is Grafana's `$__rate_interval`. Raises `urllib.error.HTTPError` where it is not PromQL.
        """
        variables = {
            "$__rate_interval": f"{rate_s}s",
            "$__range": f"{self.end_s - self.begin_s:.0f}s",
            "$instance": ".*",
        }
        asked = scoped(expr)
        for name, value in variables.items():
            asked = asked.replace(name, value)
        values = {"query": asked, "start": self.begin_s, "end": self.end_s, "step": step_s}
        with urllib.request.urlopen(f"{self.url}/api/v1/query_range?{urllib.parse.urlencode(values)}") as response:
            return [_series(each) for each in json.load(response)["data"]["result"]]


def _series(found: dict[str, object]) -> Series:
    labels, values = found["metric"], found["values"]
    assert isinstance(labels, dict)
    assert isinstance(values, list)
    return Series(labels, [float(at) for at, _ in values], [float(value) for _, value in values])


@contextmanager
def replayed(record: Path) -> Iterator[Replay]:
    """Starts a Prometheus with the record on a free port of loopback. Raises `RuntimeError` where there is none."""
    program = find("prometheus")
    if program is None:
        raise RuntimeError(MISSING)
    with tempfile.TemporaryDirectory() as folder:
        promtool("tsdb", "create-blocks-from", "openmetrics", record, folder)
        (Path(folder) / "prometheus.yml").write_text("{}")
        process = subprocess.Popen(_command(program, folder), stderr=subprocess.PIPE, text=True)
        try:
            assert process.stderr is not None
            yield Replay(f"http://{_address(process.stderr)}", *_span(record))
        finally:
            _stop(process)


def _command(program: Path, folder: str) -> list[str]:
    return [
        str(program),
        f"--config.file={folder}/prometheus.yml",
        f"--storage.tsdb.path={folder}",
        "--storage.tsdb.retention.time=100y",
        "--web.listen-address=127.0.0.1:0",
        "--log.format=json",
    ]


def _address(log: IO[str]) -> str:
    """Waits until it answers; where."""
    address, seen = "", []
    for line in log:
        seen.append(line)
        said = json.loads(line)
        message = said.get("msg", "")
        if message == "Listening on":
            address = said["address"]
        if message.startswith("Server is ready"):
            return address
    raise RuntimeError(f"Prometheus did not start:\n{''.join(seen[-10:])}")


def _span(record: Path) -> tuple[float, float]:
    """First and last time of a record."""
    times = [float(line.rpartition(" ")[2]) for line in record.read_text().splitlines() if not line.startswith("#")]
    return min(times), max(times)


def _stop(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.communicate(timeout=STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
