"""Boards as Grafana's JSON, through its own SDK."""

from __future__ import annotations

import string

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.builders import heatmap, prometheus, stat, statetimeline, table, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common, dashboard
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from tools.dashboards.board import Board, Panel, Row
from tools.dashboards.catalogue import Catalogue
from tools.dashboards.queries import Query, scoped

_Builder = timeseries.Panel | stat.Panel | heatmap.Panel | table.Panel | statetimeline.Panel
_HEIGHT = {"stat": 4, "states": 5, "table": 6}
_SOURCE = dashboard.DataSourceRef(type_val="prometheus", uid="${datasource}")
TAG = "talkwire"
"""What all dashboards are tagged with, and link to each other by."""


def to_json(board: Board, catalogue: Catalogue) -> str:
    """A dashboard's file. Raises `UnknownMetricError` for an expression that names what nobody declares."""
    made = _frame(board)
    number = 0
    for row in board.rows:
        made.with_row(_row(row, number := number + 1))
        for panel in row.panels:
            made.with_panel(_panel(panel, number := number + 1, catalogue))
    return JSONEncoder(sort_keys=True, indent=2, ensure_ascii=False).encode(made.build()) + "\n"


def _frame(board: Board) -> builders.Dashboard:
    """All but the panels."""
    links = builders.DashboardLink("talkwire").type(dashboard.DashboardLinkType.DASHBOARDS).tags([TAG])
    return (
        builders.Dashboard(board.title)
        .uid(board.uid)
        .description(board.text)
        .tags([TAG])
        .editable()
        .tooltip(dashboard.DashboardCursorSync.CROSSHAIR)
        .time("now-1h", "now")
        .refresh("30s")
        .link(links.include_vars(True).keep_time(True))
        .with_variable(builders.DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
        .with_variable(_instances())
    )


def _instances() -> builders.QueryVariable:
    everything = dashboard.VariableOption(selected=True, text=["All"], value=["$__all"])
    return (
        builders.QueryVariable("instance")
        .label("Server")
        .datasource(_SOURCE)
        .query("label_values(talkwire_build_info, instance)")
        .refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(dashboard.VariableSort.ALPHABETICAL_ASC)
        .multi(True)
        .include_all(True)
        .current(everything)
    )


def _row(row: Row, number: int) -> builders.Row:
    return builders.Row(row.title).id(number)


def _panel(panel: Panel, number: int, catalogue: Catalogue) -> _Builder:
    metrics = [metric for query in panel.queries for metric in catalogue.used(query.expr)]
    text = panel.text or " ".join(dict.fromkeys(metric.text for metric in metrics))
    made = _look(panel).id(number).title(panel.title).description(text).datasource(_SOURCE).unit(panel.unit)
    made.span(panel.width).height(_HEIGHT.get(panel.look, 8))
    if panel.steps:
        made.thresholds(_thresholds(panel))
    for letter, query in zip(string.ascii_uppercase, panel.queries, strict=False):
        made.with_target(_target(panel, query, letter))
    return made


def _look(panel: Panel) -> _Builder:
    match panel.look:
        case "stat":
            return stat.Panel().reduce_options(common_builders.ReduceDataOptions().calcs(["lastNotNull"]))
        case "heat":
            return heatmap.Panel().calculate(False).y_axis(heatmap.YAxisConfig().unit(panel.unit))
        case "table":
            return table.Panel()
        case "states":
            return statetimeline.Panel().show_value(common.VisibilityMode.NEVER).row_height(0.8)
        case _:
            return _lines(panel)


def _lines(panel: Panel) -> timeseries.Panel:
    legend = common_builders.VizLegendOptions().display_mode(common.LegendDisplayMode.LIST)
    tooltip = common_builders.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI)
    made = timeseries.Panel().legend(legend.placement(common.LegendPlacement.BOTTOM).show_legend(True))
    made.tooltip(tooltip.sort(common.SortOrder.DESCENDING)).min(0).line_width(1).fill_opacity(10)
    if panel.look == "stack":
        made.stacking(common_builders.StackingConfig().mode(common.StackingMode.NORMAL)).fill_opacity(40)
    if panel.steps:
        made.thresholds_style(common_builders.GraphThresholdsStyleConfig().mode(common.GraphThresholdsStyleMode.LINE))
    return made


def _thresholds(panel: Panel) -> builders.ThresholdsConfig:
    steps = [dashboard.Threshold(color=color, value=value) for color, value in panel.steps]
    return builders.ThresholdsConfig().mode(dashboard.ThresholdsMode.ABSOLUTE).steps(steps)


def _target(panel: Panel, query: Query, letter: str) -> prometheus.Dataquery:
    made = prometheus.Dataquery().ref_id(letter).expr(scoped(query.expr)).legend_format(query.legend)
    if panel.look == "heat":
        return made.format(PromQueryFormat.HEATMAP)
    if panel.look == "table":
        return made.format(PromQueryFormat.TABLE).instant()
    return made
