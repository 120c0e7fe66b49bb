"""The talker as a stage: loads, warms up, and hands over its loop."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic_ns

import numpy as np
import torch

from talkwire_pipeline.checkpoint import read_checkpoint, resolve_checkpoint
from talkwire_pipeline.deploy import Deploy
from talkwire_pipeline.deploy.schema import Talker
from talkwire_pipeline.errors import DeployError
from talkwire_pipeline.geometry import CODEBOOKS, PRESETS
from talkwire_pipeline.messages import DropReference, Failed, Message, Open, PutReference, Refused
from talkwire_pipeline.sampling import Sampling
from talkwire_pipeline.stage.facts import device_name, facts
from talkwire_pipeline.stage.process import Built, Emit
from talkwire_pipeline.talker.embedded import EmbeddedRunner
from talkwire_pipeline.talker.ids import IdSpace
from talkwire_pipeline.talker.loop import TalkerLoop
from talkwire_pipeline.talker.state import TalkerState
from talkwire_pipeline.text.prompt import Prompt, PromptBuilder
from talkwire_pipeline.weights import load_talker

WARM_UP_ROWS = 12
"""Rows of a generation of the warm-up: the ramp of the delay pattern and a few more."""


def build(deploy: Deploy, to_server: Emit, to_codec: Emit) -> Built:
    """A `talkwire_pipeline.stage.process.Build`. Raises `CheckpointError` and `DeployError`."""
    options = deploy.stages.talker
    check_runner(options)
    torch.set_num_threads(options.threads)
    device = torch.device(device_name(options.device, deploy.platform))
    checkpoint = read_checkpoint(resolve_checkpoint(deploy.model.checkpoint), deploy.model.name)
    prompt = PromptBuilder(checkpoint.folder).build("Ready.", "Yes.", reference_frames=1)
    audio_token = int(prompt.ids[-1])
    ids = IdSpace(
        slots=options.max_num_seqs + 1,
        text_vocabulary=checkpoint.talker.vocabulary,
        bank_rows=options.max_reference_frames,
    )
    weights = load_talker(checkpoint, device)
    state = TalkerState(ids, options.max_model_len, device, max_rows_per_step=ids.slots)
    runner = EmbeddedRunner(
        checkpoint.talker,
        weights,
        state,
        ids,
        audio_token_id=audio_token,
        max_model_len=options.max_model_len,
        max_num_batched_tokens=options.max_num_batched_tokens,
        device=device,
        dtype=options.dtype,
    )

    def loop(to_server: Emit, to_codec: Emit) -> TalkerLoop:
        return TalkerLoop(
            state,
            runner,
            audio_token=audio_token,
            max_model_len=options.max_model_len,
            to_codec=to_codec,
            to_server=to_server,
            now_ns=monotonic_ns,
        )

    warm_up(loop, prompt, options.max_num_seqs)
    state.reset()
    return Built(
        loop(to_server, to_codec),
        facts(
            device=str(device),
            dtype=dtype_name(options, device),
            parameters=weights.parameters,
            slots=options.max_num_seqs,
            model_runner=options.model_runner,
            max_model_len=options.max_model_len,
        ),
    )


def check_runner(options: Talker) -> None:
    """Raises `DeployError` for a runner that this installation does not have."""
    if options.model_runner != "embedded":
        raise DeployError(
            f"stages.talker.model_runner: {options.model_runner} comes with the extra talkwire[vllm], which this "
            "version does not have yet; `embedded` works here"
        )


def dtype_name(options: Talker, device: torch.device) -> str:
    """What the backbone computes in."""
    if options.dtype != "auto":
        return options.dtype
    return "float32" if device.type == "cpu" else "bfloat16"


def warm_up(make_loop: Callable[[Emit, Emit], TalkerLoop], prompt: Prompt, slots: int) -> None:
    """Speaks in every slot at once with a reference, as a server would ask for it, to nobody.

    Raises `RuntimeError` with the talker's own words where it does not work.
    """
    loop = make_loop(_must_work, lambda message: None)
    frame = np.zeros((1, CODEBOOKS), np.int16)
    loop.handle(PutReference(reference=1, codes=frame))
    for generation in range(1, slots + 1):
        loop.handle(
            Open(
                generation=generation,
                prompt=prompt.ids,
                reference=1,
                reference_at=prompt.reference_at,
                sampling=Sampling(seed=generation),
                max_rows=WARM_UP_ROWS,
                geometry=PRESETS["exact"],
                credit_samples=0,
            )
        )
    while loop.step():
        pass
    loop.handle(DropReference(reference=1))


def _must_work(message: Message) -> None:
    if isinstance(message, Failed | Refused):
        raise RuntimeError(f"warm-up: {message.detail}")
