"""What expressions may name, of all sources."""

from __future__ import annotations

from tools.dashboards.catalogue import Catalogue
from tools.dashboards.declared import declared
from tools.dashboards.recording import recorded


def catalogue() -> Catalogue:
    """What a server declares, and what is recorded."""
    return Catalogue(declared(), recorded())
