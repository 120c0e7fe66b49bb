"""PromQL for panels. Expressions are written plainly; `scoped` restricts them to the instances that are chosen."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tools.dashboards.catalogue import NAMES, check_label
from tools.dashboards.metric import Metric

_SELECTOR = re.compile(NAMES.pattern + r"(?:\{(?P<labels>[^}]*)\})?")
_CHOSEN = 'instance=~"$instance"'
QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
"""Quantiles of panels, by their legend."""


@dataclass(frozen=True, slots=True)
class Query:
    """What a panel asks for.

    Attributes:
        expr: PromQL; `$__rate_interval` and `$__range` are Grafana's.
        legend: name of each series: `{{stage}}`; `__auto`: Grafana's choice.
    """

    expr: str
    legend: str = "__auto"


def scoped(expr: str) -> str:
    """The expression for the instances that the dashboard's variable names; recorded series are left as they are."""

    def restrict(found: re.Match[str]) -> str:
        name = found.group().partition("{")[0]
        labels = ",".join(filter(None, (_CHOSEN, found["labels"])))
        return f"{name}{{{labels}}}"

    return _SELECTOR.sub(restrict, expr)


def spread(metric: Metric, by: str = "") -> tuple[Query, ...]:
    """How a duration or an amount is spread: quantiles of a histogram, the mean of a summary, a gauge as it is.

    `by`: a label, and one for each of its values; empty: all together. Raises `UnknownMetricError` for no label.
    """
    if by:
        check_label(metric, by)
    legend = f" {{{{{by}}}}}" if by else ""
    groups = f" by ({by}) " if by else " "
    if metric.kind == "histogram":
        les = f"le, {by}" if by else "le"
        rate = f"sum by ({les}) (rate({metric.name}_bucket[$__rate_interval]))"
        return tuple(Query(f"histogram_quantile({q}, {rate})", name + legend) for name, q in QUANTILES.items())
    if metric.kind == "summary":
        total, count = (f"sum{groups}(rate({metric.name}_{part}[$__rate_interval]))" for part in ("sum", "count"))
        return (Query(f"{total} / {count}", "mean" + legend),)
    return (Query(metric.series[0]),)


def rates(metric: Metric, by: str = "") -> Query:
    """A counter's rate a second, over all servers, or one for each value of a label.

    Raises `UnknownMetricError` for a label that it does not have.
    """
    if by:
        check_label(metric, by)
    groups, legend = (f" by ({by}) ", f"{{{{{by}}}}}") if by else (" ", "all")
    return Query(f"sum{groups}(rate({metric.series[0]}[$__rate_interval]))", legend)


def plain(metric: Metric) -> tuple[Query, ...]:
    """A metric of which nothing else is known than its kind."""
    if metric.kind == "counter":
        return (Query(f"rate({metric.series[0]}[$__rate_interval])"),)
    return spread(metric) if metric.kind != "info" else (Query(metric.series[0]),)
