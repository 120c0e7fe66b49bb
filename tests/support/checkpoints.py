"""Writes small checkpoints of the served layout, whole or broken in one way."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import save_file

from talkwire_pipeline.checkpoint import CodecConfig, TalkerConfig
from talkwire_pipeline.layout import AUDIO_HEAD, CODEC_PREFIX, codec_layout, talker_layout

Tensors = dict[str, torch.Tensor]

TALKER = TalkerConfig(layers=2, width=64, heads=4, kv_heads=2, head_dim=32, ffn=96, vocabulary=96)
CODEC = CodecConfig(codebook_dim=8, hidden=24, latent=8, decoder_hidden=64)


def talker_tensors(config: TalkerConfig = TALKER, *, seed: int = 0, dtype: torch.dtype = torch.float16) -> Tensors:
    """Random weights of sizes that make the logits vary."""
    generator = torch.Generator().manual_seed(seed)

    def draw(name: str, shape: tuple[int, ...]) -> torch.Tensor:
        noise = torch.randn(shape, generator=generator)
        if "norm" in name:
            return 1 + 0.1 * noise
        return noise * (0.3 if "embedding" in name or "head" in name else 0.2)

    return {name: draw(name, shape).to(dtype) for name, shape in talker_layout(config).items()}


def codec_tensors(config: CodecConfig = CODEC, *, seed: int = 1, dtype: torch.dtype = torch.float16) -> Tensors:
    """Random weights by transformers' names, with the prefix that they have in a checkpoint."""
    generator = torch.Generator().manual_seed(seed)
    layout = codec_layout(config).items()
    return {CODEC_PREFIX + name: torch.randn(shape, generator=generator).to(dtype) for name, shape in layout}


def in_original_layout(tensors: Tensors, levels: int = 5) -> Tensors:
    """Codec tensors by the original implementation's names, convolutions weight-normed."""
    renamed: Tensors = {}
    for name, tensor in tensors.items():
        name = CODEC_PREFIX + _original_name(name.removeprefix(CODEC_PREFIX), levels)
        if tensor.dim() == 3 and name.endswith(".weight"):
            stem = name.removesuffix("weight")
            renamed[stem + "weight_g"] = tensor.float().norm(dim=(1, 2), keepdim=True)
            renamed[stem + "weight_v"] = tensor.float() * torch.linspace(0.5, 2, len(tensor)).view(-1, 1, 1)
        else:
            renamed[name] = tensor
    return renamed


def _original_name(name: str, levels: int) -> str:
    name = name.replace("quantizer.quantizers.", "quantizer.vq.layers.").replace(".codebook.", "._codebook.")
    outer = {"conv1": 0, "snake1": levels + 1, "conv2": levels + 2}
    parts = name.split(".")
    match parts:
        case ["acoustic_decoder", "block", level, "snake1" | "conv_t1" as part, leaf]:
            place = ("snake1", "conv_t1").index(part)
            return f"acoustic_decoder.model.{int(level) + 1}.block.{place}.{leaf}"
        case ["acoustic_decoder", "block", level, unit, part, leaf]:
            place = ("snake1", "conv1", "snake2", "conv2").index(part)
            return f"acoustic_decoder.model.{int(level) + 1}.block.{int(unit[-1]) + 1}.block.{place}.{leaf}"
        case ["acoustic_decoder", part, leaf]:
            return f"acoustic_decoder.model.{outer[part]}.{leaf}"
    return name


def config_json(talker: TalkerConfig = TALKER, codec: CodecConfig = CODEC) -> dict[str, Any]:
    """What config.json says of these sizes."""
    return {
        "model_type": "higgs_multimodal_qwen3",
        "text_config": {
            "vocab_size": talker.vocabulary,
            "hidden_size": talker.width,
            "intermediate_size": talker.ffn,
            "num_hidden_layers": talker.layers,
            "num_attention_heads": talker.heads,
            "num_key_value_heads": talker.kv_heads,
            "head_dim": talker.head_dim,
            "rms_norm_eps": talker.eps,
            "rope_theta": talker.theta,
        },
        "audio_encoder_config": {"num_codebooks": 8, "vocab_size": 1026, "tie_word_embeddings": talker.tied},
        "codec_config": {
            "codebook_dim": codec.codebook_dim,
            "acoustic_model_config": {
                "hidden_size": codec.latent,
                "decoder_hidden_size": codec.decoder_hidden,
                "upsampling_ratios": list(codec.ratios),
            },
            "semantic_model_config": {"hidden_size": codec.hidden - codec.latent},
        },
    }


def write_checkpoint(
    folder: Path,
    *,
    talker: TalkerConfig = TALKER,
    codec: CodecConfig = CODEC,
    layout: Literal["transformers", "original"] = "transformers",
    shards: int = 0,
    edit: Callable[[Tensors], object] = lambda tensors: None,
    edit_config: Callable[[dict[str, Any]], object] = lambda config: None,
    dtype: torch.dtype = torch.float16,
) -> Path:
    """Writes config.json and the tensors.

    Args:
        folder: where; must exist.
        talker, codec: sizes.
        layout: names of the codec's tensors.
        shards: files to spread the tensors over, with an index; 0: one file and none.
        edit, edit_config: change the tensors and config.json before they are written.
        dtype: of the tensors.

    Returns:
        The folder.
    """
    config = config_json(talker, codec)
    edit_config(config)
    (folder / "config.json").write_text(json.dumps(config))
    of_codec = codec_tensors(codec, dtype=dtype)
    tensors = talker_tensors(talker, dtype=dtype)
    tensors |= in_original_layout(of_codec, len(codec.ratios)) if layout == "original" else of_codec
    edit(tensors)
    if not shards:
        save_file(tensors, folder / "model.safetensors")
        return folder
    names = sorted(tensors)
    weight_map = {name: f"model-{i % shards + 1:05}-of-{shards:05}.safetensors" for i, name in enumerate(names)}
    for file in set(weight_map.values()):
        save_file({name: tensors[name] for name in names if weight_map[name] == file}, folder / file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    return folder


def untied_head(config: TalkerConfig = TALKER) -> Tensors:
    """An audio head of its own."""
    return {AUDIO_HEAD: torch.full((8 * 1026, config.width), 0.5, dtype=torch.float16)}
