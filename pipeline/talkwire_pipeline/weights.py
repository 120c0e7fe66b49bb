"""Loads a checkpoint's tensors, one half at a time, so that a stage holds only what it computes with."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from talkwire_pipeline.checkpoint import Checkpoint
from talkwire_pipeline.layout import AUDIO_EMBEDDING, AUDIO_HEAD, FINAL_NORM, TEXT_EMBEDDING, layer_key
from talkwire_pipeline.tensors import Located, StoredTensor, locate


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """One decoder layer, in the checkpoint's dtype.

    Attributes:
        input_norm: [D].
        qkv: [(heads + 2 kv_heads) * head_dim, D]: queries, keys, values.
        q_norm: [head_dim].
        k_norm: [head_dim].
        out: [D, heads * head_dim].
        ffn_norm: [D].
        gate_up: [2 ffn, D].
        down: [D, ffn].
    """

    input_norm: torch.Tensor
    qkv: torch.Tensor
    q_norm: torch.Tensor
    k_norm: torch.Tensor
    out: torch.Tensor
    ffn_norm: torch.Tensor
    gate_up: torch.Tensor
    down: torch.Tensor


@dataclass(frozen=True, slots=True)
class TalkerWeights:
    """The talker, in the checkpoint's dtype.

    Attributes:
        text_embedding: [vocabulary, D].
        audio_embedding: [8 * 1026, D]; row `k * 1026 + code`.
        head: [8 * 1026, D]; the same tensor as `audio_embedding` when tied.
        layers: the decoder layers.
        norm: [D].
        parameters: how many numbers these are, a tied head counted once.
    """

    text_embedding: torch.Tensor
    audio_embedding: torch.Tensor
    head: torch.Tensor
    layers: tuple[LayerWeights, ...]
    norm: torch.Tensor
    parameters: int


def load_talker(checkpoint: Checkpoint, device: torch.device) -> TalkerWeights:
    """Reads the talker's half onto the device. On a CPU the embeddings stay mapped from the file.

    Raises:
        CheckpointError: the tensors are not those that config.json describes; nothing was read then.
    """
    located = locate(checkpoint, "talker")
    with ExitStack() as stack:
        read = _reader(located, device, stack)
        audio = read(AUDIO_EMBEDDING)
        return TalkerWeights(
            text_embedding=read(TEXT_EMBEDDING),
            audio_embedding=audio,
            head=audio if checkpoint.talker.tied else read(AUDIO_HEAD),
            layers=tuple(_layer(read, layer) for layer in range(checkpoint.talker.layers)),
            norm=read(FINAL_NORM),
            parameters=_count(located),
        )


def count_talker(checkpoint: Checkpoint) -> int:
    """How many numbers the talker has, from the headers alone. Raises as `load_talker` does."""
    return _count(locate(checkpoint, "talker"))


def load_codec(
    checkpoint: Checkpoint, device: torch.device, dtype: torch.dtype = torch.float32
) -> dict[str, torch.Tensor]:
    """Reads the codec's decoding half onto the device.

    Returns:
        Tensors by the names of transformers' `HiggsAudioV2TokenizerModel`, whichever layout the file has, with weight
        norm multiplied out: `quantizer.quantizers.K.{codebook.embed, project_out.*}`, `fc2.*`, `acoustic_decoder.*`.

    Raises:
        CheckpointError: as for `load_talker`.
    """
    located = locate(checkpoint, "codec")
    with ExitStack() as stack:
        read = _reader(located, device, stack)
        return {name: read(name).to(dtype, copy=True) for name in located}


_Read = Callable[[str], torch.Tensor]


def _reader(located: Located, device: torch.device, stack: ExitStack) -> _Read:
    """A function that reads a tensor by its layout name. The files are open as long as the stack is."""
    files: dict[Path, Any] = {}

    def tensor(stored: StoredTensor) -> torch.Tensor:
        if stored.file not in files:
            files[stored.file] = stack.enter_context(safe_open(stored.file, framework="pt", device=str(device)))
        loaded: torch.Tensor = files[stored.file].get_tensor(stored.name)
        return loaded

    def read(name: str) -> torch.Tensor:
        parts = [tensor(stored) for stored in located[name]]
        return parts[0] if len(parts) == 1 else _multiplied_out(*parts)

    return read


def _multiplied_out(length: torch.Tensor, direction: torch.Tensor) -> torch.Tensor:
    """The weight of a weight norm: length [n, 1, 1] times direction [n, ...] over its norm, in fp32."""
    direction = direction.float()
    norm: torch.Tensor = torch.linalg.vector_norm(direction, dim=tuple(range(1, direction.dim())), keepdim=True)
    return length.float() * direction / norm


def _layer(read: _Read, layer: int) -> LayerWeights:
    def weight(name: str) -> torch.Tensor:
        return read(layer_key(layer, name))

    return LayerWeights(
        input_norm=weight("input_layernorm"),
        qkv=torch.cat([weight(f"self_attn.{part}_proj") for part in "qkv"]),
        q_norm=weight("self_attn.q_norm"),
        k_norm=weight("self_attn.k_norm"),
        out=weight("self_attn.o_proj"),
        ffn_norm=weight("post_attention_layernorm"),
        gate_up=torch.cat([weight("mlp.gate_proj"), weight("mlp.up_proj")]),
        down=weight("mlp.down_proj"),
    )


def _count(located: Located) -> int:
    return sum(torch.Size(stored.shape).numel() for parts in located.values() for stored in parts)
