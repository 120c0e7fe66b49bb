"""Recorded scrapes, and figures of panels."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="the dependency group `dashboards` is not installed")

from tools.dashboards.board import Look, Panel
from tools.dashboards.boards import boards
from tools.dashboards.figures import SHOWN, draw, file_name, legend
from tools.dashboards.known import catalogue
from tools.dashboards.queries import Query
from tools.dashboards.replay import Series
from tools.dashboards.scrape import lines, save

ROOT = Path(__file__).parents[2]
PAGE = """# HELP talkwire_a_total A "thing".
# TYPE talkwire_a_total counter
talkwire_a_total{b="c\\"d"} 2.0
# TYPE talkwire_a_created gauge
talkwire_a_created 1.7e9
talkwire_e 0.5
"""


def test_a_record_has_every_sample_with_its_time_and_its_server(tmp_path: Path) -> None:
    save(tmp_path / "new" / "x.om", lines(PAGE, 1_700_000_000.25, {"instance": "a"}))
    assert (tmp_path / "new" / "x.om").read_text() == (
        'talkwire_a_total{instance="a",b="c\\"d"} 2.0 1700000000.250\n'
        'talkwire_e{instance="a"} 0.5 1700000000.250\n'
        "# EOF\n"
    )


@pytest.mark.parametrize(
    ("shape", "labels", "expected"),
    [
        ("p95 {{stage}}", {"stage": "codec"}, "p95 codec"),
        ("{{gone}}", {}, "all"),
        ("__auto", {"__name__": "x", "job": "talkwire", "part": "chunk"}, "chunk"),
        ("__auto", {"__name__": "x"}, "all"),
    ],
)
def test_a_series_is_called_what_grafana_calls_it(shape: str, labels: dict[str, str], expected: str) -> None:
    assert legend(Query("x", shape), labels) == expected


@pytest.mark.parametrize("look", ["lines", "stack", "stat", "heat", "table", "states"])
@pytest.mark.parametrize("values", [[0.0, 0.0, 0.0], [1.0, 2.0, 4.0]], ids=["nothing", "something"])
def test_every_look_becomes_a_figure(look: Look, values: list[float], tmp_path: Path) -> None:
    query = Query("x", "{{le}}")
    series = [Series({"le": bound}, [10.0, 11.0, 12.0], values) for bound in ("0.5", "1.0", "+Inf")]
    panel = Panel("A panel: of mine", (query,), "s", look)
    draw(panel, [(query, series)], 10.0, tmp_path / "x.png")
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


def test_the_pictures_of_the_docs_are_of_panels_that_are_there() -> None:
    every = {
        (board.name, panel.title): file_name(board, panel) for board in boards(catalogue()) for panel in board.panels
    }
    images = [path for path in (ROOT / "docs" / "img").iterdir() if path.name in every.values()]
    assert {path.name for path in images} == {every[shown] for shown in SHOWN}
    assert all(path.stat().st_size < 50_000 for path in images)
    page = (ROOT / "docs" / "dashboards.md").read_text()
    assert all(f"img/{path.name}" in page for path in images)
