"""What the command line draws: a progress bar and plain tables."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self, TextIO

_BAR_CHARS = 30


class Progress:
    """A bar of `done/total` on a terminal; silent where the output is none, so that logs stay clean."""

    def __init__(self, total: int, label: str, out: TextIO) -> None:
        self._total = total
        self._label = label
        self._out = out
        self._done = 0
        self._shown = out.isatty()

    def advance(self) -> None:
        """One more is done."""
        self._done += 1
        self._draw()

    def __enter__(self) -> Self:
        self._draw()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown:
            self._out.write("\n")

    def _draw(self) -> None:
        if not self._shown:
            return
        filled = _BAR_CHARS * self._done // max(self._total, 1)
        bar = "█" * filled + "░" * (_BAR_CHARS - filled)
        self._out.write(f"\r{self._label} {bar} {self._done}/{self._total}")
        self._out.flush()


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns of text under their heads: the first to the left, the others to the right."""
    lines = [head, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(_line(line, widths) for line in lines)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = zip(cells, widths, strict=True)
    return "  ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in rest)]).rstrip()
