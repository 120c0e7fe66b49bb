"""All that is generated: which files, and what is in them."""

from __future__ import annotations

from collections.abc import Iterable

from tools.dashboards.alerts import alert_groups, alerts
from tools.dashboards.boards import boards
from tools.dashboards.catalogue import Catalogue
from tools.dashboards.grafana import to_json
from tools.dashboards.metric import Metric
from tools.dashboards.recording import recording_groups
from tools.dashboards.rules import rule_file
from tools.dashboards.wanted import WANTED

DASHBOARDS, RULES = "docker/grafana/dashboards", "docker/prometheus/rules"
"""Folders of the generated files."""
WANTED_PAGE = "docs/metrics-wanted.md"
"""The page that lists `WANTED`."""
_WANTED_HEAD = """# Metrics that are wanted

What the dashboards and alerts use and the server does not have yet (`tools/dashboards/wanted.py`): panels stay empty
and alerts silent until it has. `make dashboards` names those that it has by now.

"""
_WANTED_TABLE = "| metric | type | what |\n|---|---|---|\n"


def files(known: Catalogue) -> dict[str, str]:
    """Text of every generated file by its path from the root. Raises `UnknownMetricError`."""
    _check_rules(known)
    return {
        **{f"{DASHBOARDS}/{board.name}.json": to_json(board, known) for board in boards(known)},
        f"{RULES}/recording.yml": rule_file(recording_groups()),
        f"{RULES}/alerts.yml": rule_file(alert_groups()),
        WANTED_PAGE: wanted_page(WANTED),
    }


def _check_rules(known: Catalogue) -> None:
    for expr in [rule.expr for group in recording_groups() for rule in group.rules] + [rule.expr for rule in alerts()]:
        known.used(expr)


def wanted_page(wanted: Iterable[Metric]) -> str:
    """docs/metrics-wanted.md."""
    rows = [f"| `{metric.shown}` | {metric.kind} | {metric.text} |\n" for metric in wanted]
    return _WANTED_HEAD + (_WANTED_TABLE + "".join(rows) if rows else "None.\n")
