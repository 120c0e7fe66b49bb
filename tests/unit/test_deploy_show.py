"""A deployment as a file again, and the difference of two."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from talkwire_pipeline.deploy import Deploy, load
from talkwire_pipeline.deploy.files import profiles
from talkwire_pipeline.deploy.show import difference, features, render


def without_history(deploy: Deploy) -> Deploy:
    return msgspec.structs.replace(deploy, profile="", provenance={}, warnings=())


@pytest.mark.parametrize("platform", ["cuda", "rocm", "cpu"])
@pytest.mark.parametrize("profile", profiles())
def test_what_is_printed_loads_again_to_the_same(profile: str, platform: str, tmp_path: Path) -> None:
    sets = ["connectors.codes.ramp=[4, 8]", "talker.compilation_config={a: {b: [1]}}", "sampling.seed=7"]
    deploy = load(profile, platform=platform, overrides=sets, environment={})
    path = tmp_path / "again.yaml"
    path.write_text(render(deploy))
    again = load(str(path), platform=platform, environment={})
    stages = msgspec.structs.replace(
        deploy.stages,
        talker=msgspec.structs.replace(deploy.stages.talker, model_runner=deploy.runner.model_runner),
    )
    assert without_history(again) == without_history(msgspec.structs.replace(deploy, stages=stages))
    assert render(again).count("\n") == render(deploy).count("\n")


def test_every_value_says_where_it_came_from() -> None:
    deploy = load("higgs-v3", platform="npu", overrides=["codec.threads=3"], environment={})
    lines = render(deploy).splitlines()
    assert lines[0] == "# profile higgs-v3, platform npu"
    assert lines[1].startswith("# runner v1: async_scheduling off, ")
    values = [line for line in lines if not line.startswith("#") and not line.endswith(":")]
    assert all(" # " in line for line in values)
    (threads,) = (line for line in values if line.endswith("# --set codec.threads=3"))
    assert threads.split()[:2] == ["threads:", "3"]


def test_the_difference_names_both_values_and_their_places() -> None:
    one = load("demo", platform="cpu", environment={})
    other = load("demo", platform="cpu", overrides=["talker.threads=2", "sampling.seed=1"], environment={})
    assert difference(one, one) == ""
    assert difference(one, other).splitlines() == [
        "sampling.seed: unset -> 1 (--set sampling.seed=1)",
        "stages.talker.threads: 1 (default) -> 2 (--set talker.threads=2)",
    ]
    assert "platform: cpu -> cuda" in difference(one, load("demo", platform="cuda", environment={}))


def test_the_eight_features() -> None:
    assert set(features(load("demo", environment={}))) == {
        "device_codes",
        "device_sampling",
        "device_feedback",
        "decode_graph",
        "async_egress",
        "async_scheduling",
        "batched_state_update",
        "codec_graphs",
    }
