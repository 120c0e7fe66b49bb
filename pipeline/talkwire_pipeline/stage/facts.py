"""What both stages say about themselves. Needs no torch."""

from __future__ import annotations

import os
from importlib.metadata import version
from typing import Any


def facts(
    *, device: str, dtype: str, parameters: int, slots: int, versions: dict[str, str] | None = None, **others: Any
) -> dict[str, Any]:
    """The facts of `Ready`: these, the process and the versions of the libraries that compute.

    Args:
        device: torch device.
        dtype: what it computes in.
        parameters: how many numbers were loaded.
        slots: generations that it holds at the same time.
        versions: of more libraries, by name.
        others: what is the stage's own.
    """
    return {
        "pid": os.getpid(),
        "device": device,
        "dtype": dtype,
        "parameters": parameters,
        "slots": slots,
        "versions": {name: version(name) for name in ("torch", "transformers")} | (versions or {}),
        **others,
    }
