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
