"""The version of what is installed."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as _installed


def version() -> str:
    """The version of the `talkwire` distribution; `0+source` where it runs from a folder that was not installed."""
    try:
        return _installed("talkwire")
    except PackageNotFoundError:
        return "0+source"
