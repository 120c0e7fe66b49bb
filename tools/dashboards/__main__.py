"""Writes the files; see `files.py`."""

from __future__ import annotations

import sys
from pathlib import Path

from tools.dashboards.files import files
from tools.dashboards.known import catalogue


def main(root: Path) -> int:
    """Writes everything under `root` and says what is new; the exit status."""
    known = catalogue()
    for name, text in files(known).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8", newline="\n")
            print(f"written: {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path.cwd()))
