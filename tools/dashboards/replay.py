"""Asks a real Prometheus about a recorded scrape."""

from __future__ import annotations

import json
import tempfile
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tools.dashboards.prometheus import promtool, running
from tools.dashboards.queries import scoped


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
    """Starts a Prometheus with the record. Raises `RuntimeError` where there is none."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        promtool("tsdb", "create-blocks-from", "openmetrics", record, folder)
        with running(folder, "{}", "--storage.tsdb.retention.time=100y") as url:
            yield Replay(url, *_span(record))


def _span(record: Path) -> tuple[float, float]:
    """First and last time of a record."""
    times = [float(line.rpartition(" ")[2]) for line in record.read_text().splitlines() if not line.startswith("#")]
    return min(times), max(times)
