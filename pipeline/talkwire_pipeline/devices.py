"""Where a stage computes: the platform that the deployment names, held against the one that PyTorch has."""

from __future__ import annotations

from typing import get_args

import torch

from talkwire_pipeline.deploy.schema import Devices, Dtype, Platform
from talkwire_pipeline.errors import DeployError


def torch_device(devices: Devices, platform: Platform) -> torch.device:
    """The device of a stage: the first of `devices` on the platform.

    Raises `DeployError` where PyTorch has another platform, or not so many devices.
    """
    if platform == "cpu":
        return torch.device("cpu")
    found = _found()
    if platform != found:
        raise DeployError(
            f"platform: the deployment is for {platform}, and PyTorch {torch.__version__} finds {found} here: "
            f"--platform {found} works, or the PyTorch of {platform}"
        )
    kind = "cuda" if platform == "rocm" else platform  # PyTorch's name for it
    count = torch.get_device_module(kind).device_count()
    wanted = (0,) if devices == "auto" else devices
    if not wanted or max(wanted) >= count:
        raise DeployError(f"devices: {list(wanted)}: name at least one of the {count} {platform} devices, from 0")
    return torch.device(kind, wanted[0])


def talker_dtype(choice: Dtype, device: torch.device) -> str:
    """What the talker's backbone computes in: the choice; for `auto` float32 on a CPU, bfloat16 elsewhere."""
    if choice != "auto":
        return choice
    return "float32" if device.type == "cpu" else "bfloat16"


def _found() -> Platform:
    """The platform whose devices PyTorch can use."""
    if torch.cuda.is_available():
        return "rocm" if torch.version.hip else "cuda"
    for platform in get_args(Platform):
        module = getattr(torch, platform, None)
        if platform != "cpu" and module is not None and module.is_available():
            return platform  # type: ignore[no-any-return]
    return "cpu"
