"""Which platform this is, found without torch, and what each runs when nothing else is said."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import get_args

from talkwire_pipeline.deploy.schema import Platform
from talkwire_pipeline.errors import DeployError
from talkwire_pipeline.sampling import Runner

ENVIRONMENT_NAME = "TALKWIRE_PLATFORM"
"""Names the platform where `--platform` does not."""
DEFAULT_RUNNER: dict[Platform, Runner] = {
    "cuda": "v2",
    "rocm": "v1",
    "npu": "v1",
    "xpu": "v1",
    "musa": "v1",
    "cpu": "embedded",
}
"""What steps the talker where no file says so."""
_DEVICE_FILES: dict[Platform, str] = {
    "cuda": "/dev/nvidiactl",
    "rocm": "/dev/kfd",
    "npu": "/dev/davinci_manager",
    "musa": "/dev/mtgpu.0",
    "xpu": "/dev/dri/renderD128",
}


def named(name: str, source: str) -> Platform:
    """The platform of that name. Raises `DeployError` for any other."""
    for platform in get_args(Platform):
        if platform == name:
            return platform  # type: ignore[no-any-return]
    raise DeployError(f"{source}: no such platform: {name}; there are {', '.join(get_args(Platform))}")


def detect(torch_version: str | None, exists: Callable[[str], bool] = lambda path: Path(path).exists()) -> Platform:
    """The platform of this machine: the one that PyTorch was built for, if its device is there.

    The build is in the version's tag (`2.13.0+cu130`, `+rocm6.4`, `+xpu`, `+cpu`); a plain version is a CUDA build on
    most indexes, and what Ascend's and Moore Threads' plug-ins stand on. Without the device it is `cpu`.
    """
    tag = (torch_version or "+cpu").partition("+")[2]
    built: tuple[Platform, ...] = ("cuda", "npu", "musa")
    for start, platform in (("cu", "cuda"), ("rocm", "rocm"), ("xpu", "xpu")):
        if tag.startswith(start):
            built = (platform,)  # type: ignore[assignment]
    if tag.startswith("cpu"):
        built = ("npu", "musa")
    return next((platform for platform in built if exists(_DEVICE_FILES[platform])), "cpu")


def installed_torch() -> str | None:
    """The version of PyTorch that is installed, its tag with it; None: there is none."""
    try:
        return version("torch")
    except PackageNotFoundError:
        return None
