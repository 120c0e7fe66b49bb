"""The generated dashboards and rules: up to date, about metrics that exist, whole."""

from __future__ import annotations

import json
import re
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("grafana_foundation_sdk", reason="the dependency group `dashboards` is not installed")

from tools.dashboards import __main__ as writer
from tools.dashboards.boards import boards
from tools.dashboards.catalogue import Catalogue, UnknownMetricError
from tools.dashboards.declared import declared
from tools.dashboards.files import files
from tools.dashboards.grafana import to_json
from tools.dashboards.known import catalogue
from tools.dashboards.metric import Kind, Metric
from tools.dashboards.queries import plain, rates, scoped, spread
from tools.dashboards.recording import recorded
from tools.dashboards.slo import BURNS, TTFA_LIMIT_S, WINDOWS

ROOT = Path(__file__).parents[2]
UIDS = {
    "overview": "talkwire-overview",
    "talker": "talkwire-talker",
    "codec_connector": "talkwire-codec-connector",
    "front_end": "talkwire-front-end",
    "voices": "talkwire-voices",
}
BOARDS = tuple(f"docker/grafana/dashboards/{name}.json" for name in UIDS)
RULES = tuple(f"docker/prometheus/rules/{name}.yml" for name in ("recording", "alerts"))
FILES = (*BOARDS, *RULES)


@cache
def known() -> Catalogue:
    return catalogue()


@cache
def made() -> dict[str, str]:
    return files(known())


def board(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(made()[name])
    return found


def panels(content: dict[str, Any]) -> list[dict[str, Any]]:
    return [panel for panel in content["panels"] if panel["type"] != "row"]


@pytest.mark.parametrize("name", FILES)
def test_the_files_are_up_to_date(name: str) -> None:
    assert (ROOT / name).read_bytes() == made()[name].encode(), "run `make dashboards`"


def test_there_are_no_other_files() -> None:
    assert set(made()) == set(FILES)
    folders = {(ROOT / name).parent for name in (*BOARDS, *RULES)}
    assert {str(path.relative_to(ROOT)) for folder in folders for path in folder.iterdir()} == {*BOARDS, *RULES}


def test_writing_twice_gives_the_same_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert writer.main(tmp_path) == 0
    written = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert len(written) == len(FILES)
    assert capsys.readouterr().out.count("written: ") == len(FILES)
    assert writer.main(tmp_path) == 0
    assert {path: path.read_bytes() for path in written} == written
    assert "written" not in capsys.readouterr().out


def test_uids_are_fixed() -> None:
    assert {Path(name).stem: board(name)["uid"] for name in BOARDS} == UIDS


@pytest.mark.parametrize("name", BOARDS)
def test_a_dashboard_asks_the_chosen_source_for_the_chosen_servers(name: str) -> None:
    variables = board(name)["templating"]["list"]
    assert [variable["name"] for variable in variables] == ["datasource", "instance"]
    for panel in panels(board(name)):
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert panel["description"]
        for target in panel["targets"]:
            for series in re.findall(r"(?:talkwire|process)_\w+(\{[^}]*)?", target["expr"]):
                assert series.startswith('{instance=~"$instance"')


@pytest.mark.parametrize("name", BOARDS)
def test_ids_and_titles_are_unique_and_nothing_overlaps(name: str) -> None:
    everything = board(name)["panels"]
    ids = [panel["id"] for panel in everything]
    assert len(set(ids)) == len(ids)
    titles = [panel["title"] for panel in panels(board(name))]
    assert len(set(titles)) == len(titles)
    places = [panel["gridPos"] for panel in everything]
    cells = [(x, y) for p in places for x in range(p["x"], p["x"] + p["w"]) for y in range(p["y"], p["y"] + p["h"])]
    assert len(set(cells)) == len(cells)
    assert all(0 <= x < 24 for x, _ in cells)


def test_every_declared_metric_has_a_panel() -> None:
    shown = {metric.name for each in boards(known()) for expr in each.expressions for metric in known().used(expr)}
    assert set(known().declared) <= shown


def test_what_a_server_declares_is_found_with_type_labels_and_buckets() -> None:
    found = declared()
    assert found["talkwire_ttfa_seconds"].kind == "histogram"
    assert TTFA_LIMIT_S in found["talkwire_ttfa_seconds"].buckets
    assert found["talkwire_utterances"].series == ("talkwire_utterances_total",)
    assert found["talkwire_utterances"].labels == ("end",)
    assert found["talkwire_edge_used_ratio"].labels == ("edge",)
    assert found["process_cpu_seconds"].series == ("process_cpu_seconds_total",)
    assert found["talkwire_build"].series == ("talkwire_build_info",)


def test_a_new_metric_gets_a_panel_of_its_own() -> None:
    new = Metric("talkwire_novel_bytes", "gauge", "Something new.")
    more = Catalogue({**known().declared, new.name: new}, recorded())
    content = json.loads(to_json(boards(more)[0], more))
    (panel,) = (panel for panel in panels(content) if panel["title"] == new.name)
    assert panel["description"] == "Something new."
    assert panel["fieldConfig"]["defaults"]["unit"] == "bytes"


@pytest.mark.parametrize(
    ("expr", "message"),
    [
        ("rate(talkwire_utterance_total[5m])", "talkwire_utterance_total: no such metric; did you mean talkwire_utt"),
        ("talkwire_ttfa_seconds", "talkwire_ttfa_seconds: no such metric; did you mean talkwire_ttfa_seconds_"),
        ("talkwire:slo_bad:ratio_rate7m > 1", "talkwire:slo_bad:ratio_rate7m: no such metric; did you mean"),
        ("process_zzz", "process_zzz: no such metric"),
        ('talkwire_utterances_total{reason="cap"}', "talkwire_utterances_total{end}: no such label: reason"),
        ('rate(talkwire_rpc_seconds_bucket{code!~"OK",le="1.0"}[1m])', "talkwire_rpc_seconds{method}: no such label"),
    ],
)
def test_a_name_that_nobody_declares_is_an_error(expr: str, message: str) -> None:
    with pytest.raises(UnknownMetricError, match=re.escape(message)):
        known().used(expr)


def test_a_metric_is_found_by_its_name_or_is_an_error() -> None:
    one = Catalogue({"talkwire_a": Metric("talkwire_a", "histogram", "A.")})
    assert one["talkwire_a"].text == "A."
    with pytest.raises(UnknownMetricError, match="talkwire_b"):
        one["talkwire_b"]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("histogram", "histogram_quantile(0.5, sum by (le, m) (rate(talkwire_a_bucket[$__rate_interval])))"),
        ("summary", "sum by (m) (rate(talkwire_a_sum[$__rate_interval])) / sum by (m) (rate(talkwire_a_count[$__rate"),
        ("gauge", "talkwire_a"),
    ],
)
def test_panels_follow_the_type_of_a_metric(kind: Kind, expected: str) -> None:
    assert spread(Metric("talkwire_a", kind, "A.", ("m",)), "m")[0].expr.startswith(expected)


def test_a_counter_is_shown_as_its_rate() -> None:
    counter = Metric("talkwire_a", "counter", "A.")
    assert plain(counter)[0].expr == "rate(talkwire_a_total[$__rate_interval])"
    assert rates(counter).expr == "sum (rate(talkwire_a_total[$__rate_interval]))"
    assert plain(Metric("talkwire_a", "info", "A."))[0].expr == "talkwire_a_info"
    with pytest.raises(UnknownMetricError, match="no such label: b"):
        rates(counter, "b")


def test_expressions_are_restricted_to_the_chosen_servers() -> None:
    expr = 'talkwire_a{b="c"} / on (instance) talkwire_d > talkwire:e:f{g="h"} + time() - process_i'
    chosen = 'instance=~"$instance"'
    assert scoped(expr) == (
        f'talkwire_a{{{chosen},b="c"}} / on (instance) talkwire_d{{{chosen}}} > talkwire:e:f{{g="h"}} '
        f"+ time() - process_i{{{chosen}}}"
    )


def test_burns_look_through_recorded_windows_the_faster_the_shorter() -> None:
    assert {window for burn in BURNS for window in (burn.long, burn.short)} == set(WINDOWS)
    assert [(burn.factor, burn.long, burn.short, burn.severity) for burn in BURNS] == [
        (14.4, "1h", "5m", "page"),
        (6, "6h", "30m", "page"),
        (1, "3d", "6h", "ticket"),
    ]
    assert all(faster.factor > slower.factor for faster, slower in pairwise(BURNS))
