"""Prometheus rule files: what a rule is, and how it is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

HEADER = "# Written by `make dashboards`: change tools/dashboards instead.\n"
"""First line of a rule file."""


@dataclass(frozen=True, slots=True)
class Recording:
    """A series that Prometheus keeps: `record` is `expr`, with `labels` on top."""

    record: str
    expr: str
    labels: dict[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """As in a rule file."""
        return {"record": self.record, "expr": _Text(self.expr)} | ({"labels": self.labels} if self.labels else {})


@dataclass(frozen=True, slots=True)
class Alert:
    """Somebody is told when `expr` has held for a while.

    Attributes:
        name: its name, and that of its page in docs/runbooks.
        expr: PromQL.
        severity: `page`: now; `ticket`: in working hours.
        summary: one line; may name labels of the result: `{{ $labels.stage }}`.
        description: what it means, with the value.
        dashboard: uid of the dashboard that shows it.
        hold: how long `expr` must hold: `5m`; empty: not at all.
        labels: more labels.
    """

    name: str
    expr: str
    severity: str
    summary: str
    description: str
    dashboard: str
    hold: str = ""
    labels: dict[str, str] = field(default_factory=dict)

    @property
    def runbook(self) -> str:
        """The page that says what to do."""
        return f"docs/runbooks/{self.name}.md"

    def as_dict(self) -> dict[str, Any]:
        """As in a rule file."""
        return {
            "alert": self.name,
            "expr": _Text(self.expr),
            **({"for": self.hold} if self.hold else {}),
            "labels": {"severity": self.severity, **self.labels},
            "annotations": {
                "summary": self.summary,
                "description": self.description,
                "runbook": self.runbook,
                "dashboard": f"/d/{self.dashboard}",
            },
        }


Rule = Recording | Alert


@dataclass(frozen=True, slots=True)
class Group:
    """Rules that are evaluated together, in order, every `interval` (empty: as Prometheus is set)."""

    name: str
    rules: Sequence[Rule]
    interval: str = ""

    def as_dict(self) -> dict[str, Any]:
        """As in a rule file."""
        interval = {"interval": self.interval} if self.interval else {}
        return {"name": self.name, **interval, "rules": [rule.as_dict() for rule in self.rules]}


def rule_file(groups: Sequence[Group]) -> str:
    """A rule file."""
    content = {"groups": [group.as_dict() for group in groups]}
    return HEADER + yaml.dump(content, Dumper=_Dumper, sort_keys=False, width=10_000)


class _Text(str):
    """Is written as a block where it has several lines."""

    __slots__ = ()


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:
        return True


def _represent(dumper: yaml.SafeDumper, text: _Text) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style="|" if "\n" in text else None)


_Dumper.add_representer(_Text, _represent)
