"""`docs/metrics.md`: the table of all metrics, made from the metrics themselves.

python -m tools.metrics_table          writes the table into the page
"""

from __future__ import annotations

from pathlib import Path

from talkwire_pipeline.deploy import load
from talkwire_pipeline.pipeline import Pipeline
from talkwire_server.metrics import Described, Metrics

PAGE = Path(__file__).parents[1] / "docs" / "metrics.md"
BEGIN, END = "<!-- table: python -m tools.metrics_table -->\n", "<!-- end of the table -->\n"


def catalogue() -> list[Described]:
    """Every metric of a server with the demo voice."""
    deploy, metrics = load("demo", platform="cpu"), Metrics()
    metrics.describe(deploy, "")
    metrics.watch(Pipeline(deploy))
    return metrics.catalogue()


def table() -> str:
    """The table in Markdown."""
    lines = ["| metric | kind | labels | what |", "|---|---|---|---|"]
    for each in catalogue():
        labels = ", ".join(f"`{label}`" for label in each.labels) or "-"
        lines.append(f"| `{each.name}` | {each.kind} | {labels} | {each.text} |")
    return "\n".join(lines) + "\n"


def page() -> str:
    """The page with the table as it should be. Raises `ValueError` where the page has no place for it."""
    before, found, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not found or not ended:
        raise ValueError(f"{PAGE}: the lines around the table are missing: {BEGIN.strip()}, {END.strip()}")
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
