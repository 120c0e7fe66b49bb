"""Draws panels of the dashboards from a recorded scrape: `python -m tools.dashboards.figures RECORD [FOLDER]`.

Without a folder: those of `SHOWN`, into docs/img. With one: every panel that has data, into that.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from tools.dashboards.board import Board, Panel
from tools.dashboards.boards import boards
from tools.dashboards.known import catalogue
from tools.dashboards.queries import Query
from tools.dashboards.replay import Replay, Series, replayed
from tools.dashboards.scrape import LABELS

SHOWN = (
    ("overview", "First audio"),
    ("overview", "First audio, all of it"),
    ("overview", "Ends a second"),
    ("talker", "Duration of a step"),
    ("codec_connector", "Messages a second"),
)
"""Dashboards and panels in docs/img."""
IMAGES = "docs/img"
Found = list[tuple[Query, list[Series]]]
"""A panel's queries, and what each gave."""
RATE_S, STEP_S = 10, 1.0
"""What Grafana would choose for a record with a scrape each second."""
_STYLE: Any = {
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
}
_SCALES = {
    "percentunit": (100, "%"),
    "bytes": (2**-20, "MiB"),
    "Bps": (2**-20, "MiB/s"),
    "s": (1, "s"),
    "ops": (1, "1/s"),
}


def draw(panel: Panel, found: Found, begin_s: float, path: Path) -> None:
    """One figure of one panel."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(6, 3), dpi=100, layout="constrained")
        axes = figure.subplots()
        axes.set_title(panel.title, loc="left", fontweight="bold")
        axes.set_xlabel("s")
        axes.set_ylabel(_SCALES.get(panel.unit, (1, ""))[1])
        _DRAW.get(panel.look, _lines)(axes, panel, found, begin_s)
        figure.savefig(path, metadata={"Software": None})


def _lines(axes: Axes, panel: Panel, found: Found, begin_s: float) -> None:
    scale = _SCALES.get(panel.unit, (1, ""))[0]
    for query, several in found:
        for series in several:
            times = np.array(series.times_s) - begin_s
            axes.plot(times, np.array(series.values) * scale, label=legend(query, series.labels), lw=1.2)
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, fontsize=7, ncols=3)


def _stack(axes: Axes, panel: Panel, found: Found, begin_s: float) -> None:
    every = [(query, series) for query, several in found for series in several]
    flat = [(query, series) for query, series in every if any(series.values)] or every[:1]
    times = sorted({at for _, series in flat for at in series.times_s})
    rows = [dict(zip(series.times_s, series.values, strict=True)) for _, series in flat]
    heights = [[row.get(at, 0.0) for at in times] for row in rows]
    names = [legend(query, series.labels) for query, series in flat]
    axes.stackplot(np.array(times) - begin_s, heights, labels=names, alpha=0.7)
    axes.legend(frameon=False, fontsize=7, ncols=3)


def _heat(axes: Axes, panel: Panel, found: Found, begin_s: float) -> None:
    """Counts between each two bounds; the bound without end is left out."""
    ((_, several),) = found
    ended = [series for series in several if series.labels["le"] != "+Inf"]
    ranked = sorted(ended, key=lambda series: float(series.labels["le"]))
    counts = np.diff(np.array([series.values for series in ranked]), axis=0, prepend=0)
    edges = np.arange(len(ranked) + 1)
    times = np.array(ranked[0].times_s) - begin_s
    drawn = np.ma.masked_less_equal(counts[:, :-1], 0)
    mesh = axes.pcolormesh(times, edges, drawn, cmap="viridis")
    axes.set_yticks(edges[1:], [series.labels["le"] for series in ranked], fontsize=6)
    axes.figure.colorbar(mesh, ax=axes, format=FuncFormatter(lambda value, _: f"{value:g}"))


def _table(axes: Axes, panel: Panel, found: Found, begin_s: float) -> None:
    """The labels of each series."""
    axes.axis("off")
    for row, series in enumerate(series for _, several in found for series in several):
        text = ", ".join(f"{name} {value}" for name, value in series.labels.items() if name != "__name__")
        axes.text(0, 0.95 - row / 10, text, va="top", wrap=True, transform=axes.transAxes)


_DRAW = {"heat": _heat, "stack": _stack, "table": _table}


def legend(query: Query, labels: dict[str, str]) -> str:
    """A series' name, as Grafana would have it, but `all` instead of none."""
    if query.legend == "__auto":
        return ", ".join(value for name, value in labels.items() if name not in ("__name__", *LABELS)) or "all"
    return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), query.legend).strip() or "all"


def file_name(board: Board, panel: Panel) -> str:
    """`overview-first-audio.png`."""
    words = re.sub(r"[^a-z0-9]+", "-", panel.title.lower()).strip("-")
    return f"{board.name.replace('_', '-')}-{words}.png"


def draw_all(replay: Replay, folder: Path, only: frozenset[tuple[str, str]] | None = None) -> list[str]:
    """Draws the panels that have data (`only`: those, by dashboard and title); the titles of those that have none."""
    folder.mkdir(parents=True, exist_ok=True)
    empty = []
    for board in boards(catalogue()):
        for panel in board.panels:
            if only is not None and (board.name, panel.title) not in only:
                continue
            found = [(query, replay.ask(query.expr, RATE_S, STEP_S)) for query in panel.queries]
            if any(series for _, series in found):
                draw(panel, found, replay.begin_s, folder / file_name(board, panel))
            else:
                empty.append(f"{board.name}: {panel.title}")
    return empty


def main(record: Path, folder: Path | None) -> int:
    """Draws; the exit status."""
    with replayed(record) as replay:
        empty = draw_all(replay, folder or Path(IMAGES), None if folder else frozenset(SHOWN))
    for title in empty:
        print(f"no data: {title}")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None))
