"""Programs that are not Python's, for tests and figures: `make promtool`, `make nginx` get them where there is apt."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

CACHE = Path(__file__).parents[1] / ".cache" / "debian"
"""Where the Makefile unpacks packages."""


def find(name: str, package: str) -> Path | None:
    """Path of a program: the environment's (`NGINX=...`), that of the package in the cache, that of PATH."""
    unpacked = os.pathsep.join(str(CACHE / package / "usr" / folder) for folder in ("bin", "sbin"))
    found = os.environ.get(name.upper()) or shutil.which(name, path=unpacked) or shutil.which(name)
    return Path(found) if found else None
