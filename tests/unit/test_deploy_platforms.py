"""Which platform a machine is."""

from __future__ import annotations

import pytest

from talkwire_pipeline.deploy import load
from talkwire_pipeline.deploy.platforms import detect, named
from talkwire_pipeline.errors import DeployError


@pytest.mark.parametrize(
    ("version", "files", "platform"),
    [
        ("2.13.0+cpu", ["/dev/nvidiactl"], "cpu"),
        ("2.13.0+cu130", ["/dev/nvidiactl"], "cuda"),
        ("2.13.0+cu130", [], "cpu"),
        ("2.13.0", ["/dev/nvidiactl"], "cuda"),
        ("2.13.0", [], "cpu"),
        ("2.11.0+rocm7.0", ["/dev/kfd"], "rocm"),
        ("2.11.0+rocm7.0", ["/dev/nvidiactl"], "cpu"),
        ("2.11.0+xpu", ["/dev/dri/renderD128"], "xpu"),
        ("2.11.0+cpu", ["/dev/davinci_manager"], "npu"),
        ("2.11.0", ["/dev/mtgpu.0"], "musa"),
        (None, ["/dev/nvidiactl"], "cpu"),
    ],
)
def test_a_machine_is_what_pytorch_was_built_for_if_it_has_it(
    version: str | None, files: list[str], platform: str
) -> None:
    assert detect(version, files.__contains__) == platform


def test_what_is_given_goes_before_what_is_found() -> None:
    environment = {"TALKWIRE_PLATFORM": "npu"}
    assert load("demo", environment=environment).platform == "npu"
    assert load("demo", platform="musa", environment=environment).platform == "musa"


def test_an_unknown_platform_names_the_known() -> None:
    with pytest.raises(DeployError, match=r"^TALKWIRE_PLATFORM: no such platform: gpu; there are cuda, rocm"):
        load("demo", environment={"TALKWIRE_PLATFORM": "gpu"})
    assert named("cuda", "here") == "cuda"
