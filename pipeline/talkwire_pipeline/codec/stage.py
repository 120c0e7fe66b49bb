"""The codec as a stage: loads, warms up, and hands over its loop."""

from __future__ import annotations

import torch

from talkwire_pipeline.checkpoint import read_checkpoint, resolve_checkpoint
from talkwire_pipeline.codec.decoder import CodecDecoder
from talkwire_pipeline.codec.loop import CodecLoop
from talkwire_pipeline.deploy import Deploy
from talkwire_pipeline.devices import torch_device
from talkwire_pipeline.stage.facts import facts
from talkwire_pipeline.stage.process import Built, Emit
from talkwire_pipeline.weights import load_codec


def build(deploy: Deploy, to_server: Emit, to_codec: Emit) -> Built:
    """A `talkwire_pipeline.stage.process.Build`. Raises `CheckpointError` and `DeployError`."""
    options = deploy.stages.codec
    torch.set_num_threads(options.threads)
    device = torch_device(options.devices, deploy.platform)
    # Half precision is heard in quiet passages, and the codec is small: only who asks for it gets it.
    dtype = torch.float32 if options.dtype == "auto" else getattr(torch, options.dtype)
    checkpoint = read_checkpoint(resolve_checkpoint(deploy.model.checkpoint), deploy.model.name)
    tensors = load_codec(checkpoint, device)
    loop = CodecLoop(
        CodecDecoder(tensors, checkpoint.codec, device, dtype, graphs=deploy.runner.codec_graphs),
        to_server,
        max_batch_frames=options.codec_max_batch_frames,
        max_generations=options.max_num_seqs,
    )
    loop.warm_up(deploy.geometry)
    return Built(
        loop,
        facts(
            device=str(device),
            dtype=str(dtype).removeprefix("torch."),
            parameters=sum(tensor.numel() for tensor in tensors.values()),
            slots=options.max_num_seqs,
        ),
    )
