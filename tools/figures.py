"""Measures the product's code against the limits of CONTRIBUTING.md; fails where one is passed.

Run as `python -m tools.figures` in the root of the checkout.
"""

from __future__ import annotations

import ast
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOTS = ("clients", "pipeline", "server")
SKIPPED = ("clients/talkwire/v1", "training")
FUNCTION_MEDIAN, FUNCTION_P90, FUNCTION_MAX = 8, 30, 60
FILE_P90, FILE_MAX = 300, 400

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Length(NamedTuple):
    """How many lines something has, and where it stands."""

    lines: int
    place: str


def sources(root: Path) -> list[Path]:
    """The product's files, generated code and training scripts left out."""
    skipped = tuple(str(root / folder) for folder in SKIPPED)
    paths = (path for name in ROOTS for path in (root / name).rglob("*.py"))
    return sorted(path for path in paths if not str(path).startswith(skipped))


def functions(tree: ast.Module, place: str) -> Iterator[Length]:
    """Every function, methods and inner ones too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield Length((node.end_lineno or node.lineno) - node.lineno + 1, f"{place}:{node.lineno} {node.name}")


def undocumented(node: ast.Module | ast.ClassDef, place: str) -> Iterator[str]:
    """Public names at module and class level that have no docstring."""
    for child in node.body:
        if isinstance(child, Definition) and not child.name.startswith("_"):
            if ast.get_docstring(child) is None and not _borrowed(child):
                yield f"{place}:{child.lineno} {child.name}"
            if isinstance(child, ast.ClassDef):
                yield from undocumented(child, place)


def _borrowed(definition: Definition) -> bool:
    """Whether its documentation stands elsewhere: a setter's at its property, an overload's at its implementation."""
    names = {ast.unparse(decorator).rpartition(".")[2] for decorator in definition.decorator_list}
    return bool(names & {"setter", "overload"})


def quantile(lengths: list[Length], share: float) -> int:
    """The length that `share` of all do not pass."""
    return sorted(lengths)[int(share * (len(lengths) - 1))].lines


def main(root: Path) -> int:
    """Prints the figures and what is wrong with them; the exit status."""
    trees = {str(path.relative_to(root)): ast.parse(path.read_text(encoding="utf-8")) for path in sources(root)}
    files = [Length(len((root / place).read_text(encoding="utf-8").splitlines()), place) for place in trees]
    parts = [part for place, tree in trees.items() for part in functions(tree, place)]
    bare = [name for place, tree in trees.items() for name in undocumented(tree, place)]
    median = statistics.median(part.lines for part in parts)
    print(f"files {len(files)}, lines: p90 {quantile(files, 0.9)}, max {max(files).lines}")
    print(f"functions {len(parts)}, lines: median {median:g}, p90 {quantile(parts, 0.9)}, max {max(parts).lines}")
    faults = [f"{item.place} has {item.lines} lines" for item in files if item.lines > FILE_MAX]
    faults += [f"{item.place} has {item.lines} lines" for item in parts if item.lines > FUNCTION_MAX]
    faults += [f"{name} has no docstring" for name in bare]
    if quantile(files, 0.9) > FILE_P90:
        faults.append(f"the p90 of files is above {FILE_P90} lines")
    if median > FUNCTION_MEDIAN or quantile(parts, 0.9) > FUNCTION_P90:
        faults.append(f"functions are above a median of {FUNCTION_MEDIAN} or a p90 of {FUNCTION_P90} lines")
    print("\n".join(faults) or "within the limits")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(Path.cwd()))
