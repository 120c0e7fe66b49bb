"""The programs of Prometheus, which are not Python's: `make promtool` gets them where there is apt."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tools import debian

MISSING = "promtool is not here: `make promtool` gets it on Debian and Ubuntu, PROMTOOL names one"
"""What is said where they are not there."""


def find(name: str) -> Path | None:
    """Path of `promtool` or `prometheus`: the environment's (`PROMTOOL`, `PROMETHEUS`), the cache's, that of PATH."""
    return debian.find(name, "prometheus")


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
