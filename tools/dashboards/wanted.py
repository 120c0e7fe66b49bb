"""Metrics that the dashboards and alerts use and that the server may not have yet.

Once it has one, its declaration counts and the line here can go. docs/metrics-wanted.md shows them.
"""

from __future__ import annotations

from tools.dashboards.metric import Metric

WANTED: tuple[Metric, ...] = ()
"""They have the names, kinds and labels that the expressions count on."""
