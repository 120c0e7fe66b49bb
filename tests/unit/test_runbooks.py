"""docs/runbooks: a page for each alert, short, and true in what it names."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from talkwire_pipeline.deploy.schema import Body
from tools.dashboards.alerts import alerts
from tools.dashboards.boards import boards
from tools.dashboards.known import catalogue
from tools.dashboards.slo import BURNS, GAP_LIMIT_MS, MIN_EVENTS, SLOS, TTFA_LIMIT_S

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "runbooks").iterdir())
HEADS = ["What it means", "How to look", "What to do"]


def keys(value: object, path: str = "") -> set[str]:
    """Paths of all keys of a deploy file."""
    if not isinstance(value, msgspec.Struct):
        return {path}
    fields = value.__struct_fields__
    return {key for name in fields for key in keys(getattr(value, name), f"{path}.{name}".lstrip("."))}


def test_every_alert_has_a_page_and_every_page_an_alert() -> None:
    assert {str(page.relative_to(ROOT)) for page in PAGES} == {alert.runbook for alert in alerts()}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_its_three_parts_and_is_one_page(page: Path) -> None:
    text = page.read_text()
    assert text.startswith(f"# {page.stem}\n")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == HEADS
    assert len(text.splitlines()) <= 50


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_names_is_there(page: Path) -> None:
    text = page.read_text()
    titles = {panel.title for board in boards(catalogue()) for panel in board.panels}
    assert set(re.findall(r"`([A-Z][a-z]+(?: [a-z]+)*)`", text)) <= titles
    assert set(re.findall(r"`((?:server|stages|text)\.[\w.]+)`", text)) - {"text.cap"} <= keys(Body())
    assert all((page.parent / link).exists() for link in re.findall(r"\]\(([^)]+)\)", text))


def test_the_docs_list_every_alert_and_promise() -> None:
    page = (ROOT / "docs" / "dashboards.md").read_text()
    listed = dict(re.findall(r"^\| \[(\w+)\]\(runbooks/\1\.md\) \| ([a-z ]+) \|", page, re.MULTILINE))
    burning = {slo.alert for slo in SLOS}
    assert listed == {alert.name: "by burn" if alert.name in burning else alert.severity for alert in alerts()}
    for burn in BURNS:
        assert re.search(rf"^\| {burn.factor:g}x \| .* \| {burn.severity} \|$", page, re.MULTILINE)
    for slo in SLOS:
        assert f"| {slo.objective * 100:g} % |" in page
    assert f"within {TTFA_LIMIT_S} s" in page
    assert f"more than {GAP_LIMIT_MS} ms" in page
    assert f"fewer than {MIN_EVENTS} utterances" in page
