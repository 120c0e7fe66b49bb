"""Which tensors a Higgs v3 checkpoint holds: names, shapes, and the names that they may have instead. Pure.

Names on the left of a layout are ours: the talker's as in the file, the codec's as transformers' codec model has them.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator

from talkwire_pipeline.checkpoint import CODEBOOK_IDS, CODEBOOKS, CodecConfig, TalkerConfig

Shape = tuple[int, ...]
Layout = dict[str, Shape]
"""Shape of every tensor that must be there, by name."""

TEXT_EMBEDDING = "tied.embedding.text_embedding.weight"
AUDIO_EMBEDDING = "tied.embedding.modality_embeddings.0.embedding.weight"
AUDIO_HEAD = "tied.head.modality_heads.0.weight"
FINAL_NORM = "body.norm.weight"
CODEC_PREFIX = "tied.embedding.modality_embeddings.0.model."


def talker_layout(config: TalkerConfig) -> Layout:
    """All tensors of the talker: 11 a layer, two embeddings, the last norm, and the head unless it is tied."""
    fused = (CODEBOOKS * CODEBOOK_IDS, config.width)
    layout: Layout = {
        TEXT_EMBEDDING: (config.vocabulary, config.width),
        AUDIO_EMBEDDING: fused,
        FINAL_NORM: (config.width,),
    }
    if not config.tied:
        layout[AUDIO_HEAD] = fused
    for layer in range(config.layers):
        layout |= {layer_key(layer, name): shape for name, shape in _layer(config)}
    return layout


def layer_key(layer: int, name: str) -> str:
    """Name of a layer's weight; `name` is the part after the layer's number."""
    return f"body.layers.{layer}.{name}.weight"


def _layer(config: TalkerConfig) -> Iterator[tuple[str, Shape]]:
    width, queries, keys = config.width, config.heads * config.head_dim, config.kv_heads * config.head_dim
    yield "input_layernorm", (width,)
    yield "post_attention_layernorm", (width,)
    yield "self_attn.q_norm", (config.head_dim,)
    yield "self_attn.k_norm", (config.head_dim,)
    yield "self_attn.q_proj", (queries, width)
    yield "self_attn.k_proj", (keys, width)
    yield "self_attn.v_proj", (keys, width)
    yield "self_attn.o_proj", (width, queries)
    yield "mlp.gate_proj", (config.ffn, width)
    yield "mlp.up_proj", (config.ffn, width)
    yield "mlp.down_proj", (width, config.ffn)


def codec_layout(config: CodecConfig) -> Layout:
    """All tensors of the codec's decoding half: quantizer, `fc2`, DAC decoder; weight norm already multiplied out."""
    return dict(_codec(config))


def _codec(config: CodecConfig) -> Iterator[tuple[str, Shape]]:
    for k in range(CODEBOOKS):
        yield f"quantizer.quantizers.{k}.codebook.embed", (config.codes, config.codebook_dim)
        yield f"quantizer.quantizers.{k}.project_out.weight", (config.hidden, config.codebook_dim)
        yield f"quantizer.quantizers.{k}.project_out.bias", (config.hidden,)
    yield "fc2.weight", (config.latent, config.hidden)
    yield "fc2.bias", (config.latent,)
    yield from _conv("acoustic_decoder.conv1", config.decoder_hidden, config.latent, 7)
    channels = config.decoder_hidden
    for level, ratio in enumerate(config.ratios):
        yield from _block(f"acoustic_decoder.block.{level}", channels, ratio)
        channels //= 2
    yield "acoustic_decoder.snake1.alpha", (1, channels, 1)
    yield from _conv("acoustic_decoder.conv2", 1, channels, 7)


def _conv(name: str, outputs: int, inputs: int, width: int) -> Iterator[tuple[str, Shape]]:
    yield f"{name}.weight", (outputs, inputs, width)
    yield f"{name}.bias", (outputs,)


def _block(name: str, channels: int, ratio: int) -> Iterator[tuple[str, Shape]]:
    half = channels // 2
    yield f"{name}.snake1.alpha", (1, channels, 1)
    yield f"{name}.conv_t1.weight", (channels, half, 2 * ratio)  # a transposed convolution: inputs first
    yield f"{name}.conv_t1.bias", (half,)
    for unit in (1, 2, 3):
        yield f"{name}.res_unit{unit}.snake1.alpha", (1, half, 1)
        yield from _conv(f"{name}.res_unit{unit}.conv1", half, half, 7)
        yield f"{name}.res_unit{unit}.snake2.alpha", (1, half, 1)
        yield from _conv(f"{name}.res_unit{unit}.conv2", half, half, 1)


# ---- other names of the same tensors

_WEIGHT_NORM = (
    (".weight_g", ".weight_v"),
    (".parametrizations.weight.original0", ".parametrizations.weight.original1"),
)
"""Endings of a weight-normed weight's length and direction, in the two ways of writing them."""

_RESIDUAL = ("snake1", "conv1", "snake2", "conv2")
_MODULE = re.compile(r"(?:acoustic_decoder|decoder_2)\.model\.(\d+)\.(?:block\.(\d+)\.(?:block\.(\d+)\.)?)?")
_PLAIN = (
    (re.compile(r"quantizer\.vq\.layers\.(\d+)\._codebook\."), r"quantizer.quantizers.\1.codebook."),
    (re.compile(r"quantizer\.vq\.layers\."), "quantizer.quantizers."),
    (re.compile(r"fc_prior\."), "fc."),
    (re.compile(r"fc_post1\."), "fc1."),
    (re.compile(r"fc_post2\."), "fc2."),
)


def canonical_codec_name(name: str, levels: int) -> str:
    """transformers' name for a codec tensor in either layout.

    Args:
        name: without `CODEC_PREFIX`; one of transformers', or one that is unknown, comes back as it is.
        levels: upsampling levels of the decoder.
    """
    module = _MODULE.match(name)
    if module:
        place = _decoder_place([int(number) for number in module.groups() if number is not None], levels)
        return f"acoustic_decoder.{place}.{name[module.end() :]}" if place else name
    for pattern, replacement in _PLAIN:
        name = pattern.sub(replacement, name, count=1)
    return name


def _decoder_place(numbers: list[int], levels: int) -> str | None:
    """The name of the decoder's module at these places of its nested sequences; None if none is there.

    The original implementation nests sequences: a convolution, n levels, a snake, a convolution; in a level a snake,
    an upsampling convolution, three residual units; in a unit what `_RESIDUAL` lists.
    """
    match numbers:
        case [outer]:
            return {0: "conv1", levels + 1: "snake1", levels + 2: "conv2"}.get(outer)
        case [outer, (0 | 1) as inner] if 1 <= outer <= levels:
            return f"block.{outer - 1}.{('snake1', 'conv_t1')[inner]}"
        case [outer, (2 | 3 | 4) as unit, (0 | 1 | 2 | 3) as inner] if 1 <= outer <= levels:
            return f"block.{outer - 1}.res_unit{unit - 1}.{_RESIDUAL[inner]}"
    return None


_UNUSED_TALKER = re.compile(r"tied\.head\.text_head\.|tied\.head\.modality_heads\.0\.")
_UNUSED_CODEC = re.compile(
    r"(acoustic_encoder|encoder|encoder_semantic|decoder_semantic|semantic_model|fc|fc1)\."
    r"|quantizer\.quantizers\.\d+\.(project_in\.(weight|bias)|codebook\.(cluster_size|embed_avg|inited))$"
)


def is_unused(name: str, tied: bool) -> bool:
    """Whether a tensor that no layout names may be there all the same.

    These are the text head, a tied audio head, and what only encodes or only trains the codec.

    Args:
        name: as in the file, but behind `CODEC_PREFIX` canonical.
        tied: whether the audio head is the audio embedding.
    """
    if name.startswith(CODEC_PREFIX):
        return _UNUSED_CODEC.match(name, len(CODEC_PREFIX)) is not None
    match = _UNUSED_TALKER.match(name)
    return match is not None and (tied or "modality_heads" not in match[0])


def weight_norm_parts(name: str, names: Container[str]) -> tuple[str, str] | None:
    """Names of length and direction of a weight that is stored weight-normed; None if it is not."""
    stem = name.removesuffix(".weight")
    for length, direction in _WEIGHT_NORM:
        if stem + length in names or stem + direction in names:
            return stem + length, stem + direction
    return None
