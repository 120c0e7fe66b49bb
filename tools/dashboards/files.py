"""All that is generated: which files, and what is in them."""

from __future__ import annotations

from tools.dashboards.alerts import alert_groups, alerts
from tools.dashboards.boards import boards
from tools.dashboards.catalogue import Catalogue
from tools.dashboards.grafana import to_json
from tools.dashboards.recording import recording_groups
from tools.dashboards.rules import rule_file

DASHBOARDS, RULES = "docker/grafana/dashboards", "docker/prometheus/rules"
"""Folders of the generated files."""


def files(known: Catalogue) -> dict[str, str]:
    """Text of every generated file by its path from the root. Raises `UnknownMetricError`."""
    _check_rules(known)
    return {
        **{f"{DASHBOARDS}/{board.name}.json": to_json(board, known) for board in boards(known)},
        f"{RULES}/recording.yml": rule_file(recording_groups()),
        f"{RULES}/alerts.yml": rule_file(alert_groups()),
    }


def _check_rules(known: Catalogue) -> None:
    for expr in [rule.expr for group in recording_groups() for rule in group.rules] + [rule.expr for rule in alerts()]:
        known.used(expr)
