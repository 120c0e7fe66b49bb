"""Every expression of every panel, as Prometheus reads it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.dashboards import prometheus

ROOT = Path(__file__).parents[2]
VARIABLES = {"$__rate_interval": "1m", "$__range": "1h", "$instance": ".*"}
"""What Grafana puts in."""

pytestmark = pytest.mark.skipif(prometheus.find("promtool") is None, reason=prometheus.MISSING)


def expressions(path: Path) -> Iterator[str]:
    board: dict[str, Any] = json.loads(path.read_text())
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            expr: str = target["expr"]
            for name, value in VARIABLES.items():
                expr = expr.replace(name, value)
            yield expr


@pytest.mark.parametrize("name", ["overview", "talker", "codec_connector", "front_end", "voices"])
def test_every_panel_asks_in_promql(name: str, tmp_path: Path) -> None:
    asked = list(expressions(ROOT / "docker" / "grafana" / "dashboards" / f"{name}.json"))
    assert len(asked) > 5
    rules = [{"record": f"panel:{number}", "expr": expr} for number, expr in enumerate(asked)]
    path = tmp_path / "panels.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    assert f"{len(asked)} rules found" in prometheus.promtool("check", "rules", path)


def test_a_broken_expression_is_found(tmp_path: Path) -> None:
    path = tmp_path / "broken.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "x", "rules": [{"record": "x", "expr": "sum(rate(x))"}]}]}))
    with pytest.raises(RuntimeError, match="expected type range vector"):
        prometheus.promtool("check", "rules", path)
