"""What both stages say about themselves, and where they compute. Needs no torch."""

from __future__ import annotations

import os
from importlib.metadata import version
from typing import Any

from talkwire_pipeline.deploy.schema import Platform

_DEVICES: dict[Platform, str] = {
    "cuda": "cuda:0",
    "rocm": "cuda:0",  # PyTorch's name for it
    "npu": "npu:0",
    "xpu": "xpu:0",
    "musa": "musa:0",
    "cpu": "cpu",
}


def device_name(choice: str, platform: Platform) -> str:
    """The torch device that a stage's `device` means: itself, or for `auto` the platform's first."""
    return _DEVICES[platform] if choice == "auto" else choice


def facts(*, device: str, dtype: str, parameters: int, slots: int, **others: Any) -> dict[str, Any]:
    """The facts of `Ready`: these, the process and the versions of the libraries that compute.

    Args:
        device: torch device.
        dtype: what it computes in.
        parameters: how many numbers were loaded.
        slots: generations that it holds at the same time.
        others: what is the stage's own.
    """
    return {
        "pid": os.getpid(),
        "device": device,
        "dtype": dtype,
        "parameters": parameters,
        "slots": slots,
        "versions": {name: version(name) for name in ("torch", "transformers")},
        **others,
    }
