"""What expressions may name, of all sources."""

from __future__ import annotations

from tools.dashboards.catalogue import Catalogue
from tools.dashboards.declared import declared
from tools.dashboards.recording import recorded
from tools.dashboards.wanted import WANTED


def catalogue() -> Catalogue:
    """What a server declares, what is wanted, what is recorded."""
    return Catalogue(declared(), WANTED, recorded())
