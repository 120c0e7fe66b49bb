"""What a dashboard is made of, before it becomes Grafana's JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from tools.dashboards.queries import Query

Look = Literal["lines", "stack", "stat", "heat", "table", "states"]


@dataclass(frozen=True, slots=True)
class Panel:
    """One picture.

    Attributes:
        title: unique in its dashboard.
        queries: what it shows.
        unit: as Grafana calls it: `s`, `percentunit`, `bytes`, `ops`, `short`.
        look: lines, stacked areas, one number, a heatmap of buckets, a table, states over time.
        text: what it means; empty: the text of its first metric.
        width: in 24ths of the page.
        steps: colours from a value on: `(("green", None), ("red", 0.9))`.
    """

    title: str
    queries: tuple[Query, ...]
    unit: str = "short"
    look: Look = "lines"
    text: str = ""
    width: int = 8
    steps: tuple[tuple[str, float | None], ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """Panels under a heading."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True)
class Board:
    """A dashboard. `name` is its file's, `uid` what links go to."""

    name: str
    uid: str
    title: str
    text: str
    rows: tuple[Row, ...]

    @property
    def panels(self) -> Iterator[Panel]:
        """All panels, in order."""
        for row in self.rows:
            yield from row.panels

    @property
    def expressions(self) -> Iterator[str]:
        """All PromQL, not yet restricted to instances."""
        for panel in self.panels:
            yield from (query.expr for query in panel.queries)
