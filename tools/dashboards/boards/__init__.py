"""The dashboards, one module each."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from tools.dashboards.board import Board, Panel, Row
from tools.dashboards.boards.codec_connector import codec_connector
from tools.dashboards.boards.front_end import front_end
from tools.dashboards.boards.overview import overview
from tools.dashboards.boards.talker import talker
from tools.dashboards.boards.voices import voices
from tools.dashboards.catalogue import Catalogue
from tools.dashboards.metric import Metric
from tools.dashboards.queries import plain

BOARDS: tuple[Callable[[Catalogue], Board], ...] = (overview, talker, codec_connector, front_end, voices)
"""What makes each dashboard."""
_UNITS = {"_seconds": "s", "_bytes": "bytes", "_ratio": "percentunit"}


def boards(known: Catalogue) -> list[Board]:
    """All dashboards. What the server declares and no panel shows gets a panel at the end of the first."""
    made = [make(known) for make in BOARDS]
    shown = {metric.name for board in made for expr in board.expressions for metric in known.used(expr)}
    others = [metric for name, metric in known.declared.items() if name not in shown]
    if others:
        row = Row("Other figures", tuple(map(_other, others)))
        made[0] = dataclasses.replace(made[0], rows=(*made[0].rows, row))
    return made


def _other(metric: Metric) -> Panel:
    unit = next((unit for end, unit in _UNITS.items() if metric.name.endswith(end)), "short")
    return Panel(metric.name, plain(metric), unit, "table" if metric.kind == "info" else "lines")
