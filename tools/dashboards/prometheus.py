"""The programs of Prometheus, which are not Python's: `make promtool` gets them where there is apt."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

CACHE = Path(__file__).parents[2] / ".cache" / "prometheus" / "usr" / "bin"
"""Where `make promtool` puts them."""
MISSING = "promtool is not here: `make promtool` gets it on Debian and Ubuntu, PROMTOOL names one"
"""What is said where they are not there."""


def find(name: str) -> Path | None:
    """Path of `promtool` or `prometheus`: the environment's (`PROMTOOL`, `PROMETHEUS`), the cache's, that of PATH."""
    found = os.environ.get(name.upper()) or shutil.which(name, path=CACHE) or shutil.which(name)
    return Path(found) if found else None


def promtool(*arguments: str | Path) -> str:
    """Runs promtool; what it printed. Raises `RuntimeError` with that where it finds fault, or is not here."""
    program = find("promtool")
    if program is None:
        raise RuntimeError(MISSING)
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    printed = done.stdout + done.stderr
    if done.returncode != 0:
        raise RuntimeError(printed)
    return printed
