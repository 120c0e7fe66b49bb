"""The talker as a stage: loads, warms up, and hands over its loop."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic_ns

import numpy as np
import torch

from talkwire_pipeline.checkpoint import Checkpoint, read_checkpoint, resolve_checkpoint
from talkwire_pipeline.deploy import Deploy
from talkwire_pipeline.deploy.schema import Talker
from talkwire_pipeline.devices import talker_dtype, torch_device
from talkwire_pipeline.errors import DeployError
from talkwire_pipeline.geometry import CODEBOOKS, PRESETS
from talkwire_pipeline.messages import Failed, Message, Open, PutReference, Refused
from talkwire_pipeline.sampling import Sampling
from talkwire_pipeline.stage.facts import facts
from talkwire_pipeline.stage.process import Built, Emit
from talkwire_pipeline.talker.embedded import EmbeddedRunner
from talkwire_pipeline.talker.ids import IdSpace
from talkwire_pipeline.talker.loop import TalkerLoop
from talkwire_pipeline.talker.replicas import ReplicatedState
from talkwire_pipeline.talker.runner import Runner
from talkwire_pipeline.talker.state import TalkerState
from talkwire_pipeline.talker.vllm_runner import EngineSpec, VllmRunner, rows_per_step
from talkwire_pipeline.text.prompt import Prompt, PromptBuilder
from talkwire_pipeline.weights import count_talker, load_talker

WARM_UP_ROWS = 12
"""Rows of a generation of the warm-up: the ramp of the delay pattern and a few more."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A talker without a loop.

    Attributes:
        options: the deployment's section.
        device: where it computes.
        state: its slots.
        runner: steps the backbone.
        prompt: a short one with a reference of one frame, for the warm-up.
        parameters: how many numbers were loaded.
    """

    options: Talker
    device: torch.device
    state: TalkerState
    runner: Runner
    prompt: Prompt
    parameters: int

    def loop(self, to_server: Emit, to_codec: Emit) -> TalkerLoop:
        """A loop over it, with no generation yet."""
        return TalkerLoop(
            self.state,
            self.runner,
            audio_token=int(self.prompt.ids[-1]),
            max_model_len=self.options.max_model_len,
            to_codec=to_codec,
            to_server=to_server,
            now_ns=monotonic_ns,
        )


def build(deploy: Deploy, to_server: Emit, to_codec: Emit) -> Built:
    """A `talkwire_pipeline.stage.process.Build`. Raises `CheckpointError` and `DeployError`."""
    options = deploy.stages.talker
    check_runner(deploy)
    torch.set_num_threads(options.threads)
    loaded = load(deploy)
    warm_up(loaded)
    return Built(
        loaded.loop(to_server, to_codec),
        facts(
            device=str(loaded.device),
            dtype=talker_dtype(options.dtype, loaded.device),
            parameters=loaded.parameters,
            slots=options.max_num_seqs,
            versions={"vllm": loaded.runner.version} if isinstance(loaded.runner, VllmRunner) else {},
            model_runner=deploy.runner.model_runner,
            max_model_len=options.max_model_len,
        ),
    )


def load(deploy: Deploy) -> Loaded:
    """Reads the checkpoint and puts the talker on its device; what can be refused is refused before that."""
    options = deploy.stages.talker
    checkpoint = read_checkpoint(resolve_checkpoint(deploy.model.checkpoint), deploy.model.name)
    parameters = count_talker(checkpoint)
    prompt = PromptBuilder(checkpoint.folder).build("Ready.", "Yes.", reference_frames=1)
    device = torch_device(options.devices, deploy.platform)
    ids = IdSpace(
        slots=options.max_num_seqs + 1,
        text_vocabulary=checkpoint.talker.vocabulary,
        bank_rows=options.max_reference_frames,
    )
    ranks = ranks_of(options)
    if ranks > 1:
        state: TalkerState = ReplicatedState(ids, options.max_model_len)
    else:
        state = TalkerState(ids, options.max_model_len, device, max_rows_per_step=rows_per_step(options))
    runner = _make_runner(deploy, checkpoint, state, device, int(prompt.ids[-1]))
    return Loaded(options, device, state, runner, prompt, parameters)


def ranks_of(options: Talker) -> int:
    """How many processes share the model: one for each device that is named."""
    return 1 if options.devices == "auto" else len(options.devices)


def _make_runner(
    deploy: Deploy, checkpoint: Checkpoint, state: TalkerState, device: torch.device, audio_token: int
) -> Runner:
    options = deploy.stages.talker
    if deploy.runner.model_runner != "embedded":
        spec = EngineSpec(checkpoint, state, device, audio_token, options, deploy.runner, ranks_of(options))
        return VllmRunner(spec)
    return EmbeddedRunner(
        checkpoint.talker,
        load_talker(checkpoint, device),
        state,
        state.ids,
        audio_token_id=audio_token,
        max_model_len=options.max_model_len,
        max_num_batched_tokens=options.max_num_batched_tokens,
        device=device,
        dtype=options.dtype,
    )


def check_runner(deploy: Deploy) -> None:
    """Raises `DeployError` for a runner that does not work on the platform, or not on so many devices."""
    options, name = deploy.stages.talker, deploy.runner.model_runner
    if name == "v2" and deploy.platform == "npu":
        raise DeployError("stages.talker.model_runner: v2 does not run on npu: set model_runner: v1, which does")
    if options.devices == "auto" or len(options.devices) < 2:
        return
    if name == "embedded":
        raise DeployError(
            f"stages.talker.devices: {list(options.devices)}: the embedded runner runs on one device: name one, or set "
            "model_runner: v1 or v2, which share a model among several"
        )
    if options.devices != tuple(range(len(options.devices))):
        raise DeployError(
            f"stages.talker.devices: {list(options.devices)}: several devices are numbered from 0 on: say which they "
            "are by CUDA_VISIBLE_DEVICES"
        )


def warm_up(loaded: Loaded) -> None:
    """Speaks in every slot at once, with a reference, to nobody; leaves the state as new.

    Raises `RuntimeError` with the talker's own words where it does not work.
    """
    loop = loaded.loop(_must_work, lambda message: None)
    loop.handle(PutReference(reference=1, codes=np.zeros((1, CODEBOOKS), np.int16)))
    for generation in range(1, loaded.options.max_num_seqs + 1):
        loop.handle(
            Open(
                generation=generation,
                prompt=loaded.prompt.ids,
                reference=1,
                reference_at=loaded.prompt.reference_at,
                sampling=Sampling(seed=generation),
                max_rows=WARM_UP_ROWS,
                geometry=PRESETS["exact"],
                credit_samples=0,
            )
        )
    while loop.step():
        pass
    loaded.state.reset()


def _must_work(message: Message) -> None:
    if isinstance(message, Failed | Refused):
        raise RuntimeError(f"warm-up: {message.detail}")
