"""The metrics that expressions may name. A name that nobody declares is an error, not an empty panel."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping

from tools.dashboards.metric import Metric

_NAME = r"(?:talkwire|process)_[a-z0-9_]+"
NAMES = re.compile(rf"(?<![\w:]){_NAME}")
"""Metrics in an expression; recorded series, which have a colon, are not among them."""
_SELECTOR = re.compile(rf"(?<![\w:])({_NAME})\{{([^}}]*)\}}")
_LABEL = re.compile(r"(\w+)\s*[=!]~?")
_ADDED = {"job", "instance", "le"}
_RECORDED = re.compile(r"talkwire:[a-zA-Z0-9_:]+")


class UnknownMetricError(ValueError):
    """An expression names a metric or a label that nobody declares."""


class Catalogue:
    """Metrics by name.

    Args:
        declared: what the server has.
        recorded: names of recorded series.
    """

    def __init__(self, declared: Mapping[str, Metric], recorded: Iterable[str] = ()) -> None:
        self.declared = declared
        self._by_series = {series: metric for metric in declared.values() for series in metric.series}
        self._recorded = frozenset(recorded)

    def __getitem__(self, name: str) -> Metric:
        """The metric with this name (as `Metric.name`). Raises `UnknownMetricError`."""
        if name not in self.declared:
            raise UnknownMetricError(self._unknown(name, self.declared))
        return self.declared[name]

    def used(self, expression: str) -> list[Metric]:
        """The metrics that a PromQL expression names, in order.

        Raises `UnknownMetricError` for a name that is not there, or a selector with a label that its metric lacks.
        """
        for name, selector in _SELECTOR.findall(expression):
            for label in set(_LABEL.findall(selector)) - _ADDED:
                check_label(self._of_series(name), label)
        for name in _RECORDED.findall(expression):
            if name not in self._recorded:
                raise UnknownMetricError(self._unknown(name, self._recorded))
        return [self._of_series(name) for name in NAMES.findall(expression)]

    def _of_series(self, name: str) -> Metric:
        if name not in self._by_series:
            raise UnknownMetricError(self._unknown(name, self._by_series))
        return self._by_series[name]

    @staticmethod
    def _unknown(name: str, known: Iterable[str]) -> str:
        near = difflib.get_close_matches(name, list(known), n=1)
        return f"{name}: no such metric" + (f"; did you mean {near[0]}?" if near else "")


def check_label(metric: Metric, label: str) -> None:
    """Raises `UnknownMetricError` where the metric has no such label."""
    if label not in metric.labels:
        raise UnknownMetricError(f"{metric.shown}: no such label: {label}")
