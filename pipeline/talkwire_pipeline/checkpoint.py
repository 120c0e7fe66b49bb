"""Checkpoints without tensors: where one lies, and what its JSON files say. Needs no torch.

The server process reads this part, the stages read it too and then load tensors with `talkwire_pipeline.weights`.
"""

from __future__ import annotations

import importlib
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec

from talkwire_pipeline import sampling
from talkwire_pipeline.errors import CheckpointError, InvalidArgumentError
from talkwire_pipeline.sampling import SamplingChoice

DEMO = "demo"
"""The name of the voice that comes with the package `talkwire-demo`."""
MODEL_TYPE = "higgs_multimodal_qwen3"
CODEBOOKS = 8
CODEBOOK_IDS = 1026
"""Ids of one codebook: 1024 codes, one that begins and one that ends it."""
SAMPLE_RATE_HZ = 24_000
FRAME_SAMPLES = 960
ROPE_THETA = 1_000_000.0
"""The rotary base where the file names none."""

_Json = TypeVar("_Json", bound="_Section")
_Size = Annotated[int, msgspec.Meta(ge=1)]
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


@dataclass(frozen=True, slots=True)
class TalkerConfig:
    """Sizes of the talker: a Qwen3 backbone with one fused audio embedding and head.

    Attributes:
        layers: decoder layers.
        width: D, the size of a hidden state.
        heads: query heads.
        kv_heads: key and value heads; divides `heads`.
        head_dim: size of a head; even.
        ffn: inner size of the feed-forward part.
        vocabulary: text ids.
        eps: added to the mean square in RMS norms.
        theta: base of the rotary positions.
        tied: the audio head is the audio embedding.
    """

    layers: int
    width: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocabulary: int
    eps: float = 1e-6
    theta: float = ROPE_THETA
    tied: bool = True


@dataclass(frozen=True, slots=True)
class CodecConfig:
    """Sizes of the codec's decoding half. The defaults are the published ones.

    Attributes:
        codes: entries of a codebook.
        codebook_dim: size of an entry.
        hidden: size of a quantized frame (acoustic and semantic part together).
        latent: size of what the DAC decoder takes.
        decoder_hidden: channels of its first convolution, halved at each level.
        ratios: upsampling of its levels; their product is 960.
    """

    codes: int = 1024
    codebook_dim: int = 64
    hidden: int = 1024
    latent: int = 256
    decoder_hidden: int = 1024
    ratios: tuple[int, ...] = (8, 5, 4, 2, 3)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What the JSON files of a checkpoint say.

    Attributes:
        folder: where it lies.
        name: what to call it: its folder's name, or its id.
        talker: sizes of the talker.
        codec: sizes of the codec.
        sampling: the values that its generation_config.json sets.
    """

    folder: Path
    name: str
    talker: TalkerConfig
    codec: CodecConfig
    sampling: SamplingChoice


# ---- where it lies


def resolve_checkpoint(name: str) -> Path:
    """The folder of a checkpoint. Nothing is ever downloaded.

    Args:
        name: `demo`, a folder, or the id of a model in the local Hugging Face cache (`owner/model`).

    Raises:
        CheckpointError: there is none; the message says what to do.
    """
    if name == DEMO:
        return _demo()
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder
    if folder.exists():
        raise CheckpointError(f"model.checkpoint: {name} is a file; give the folder that holds config.json")
    if _HUB_ID.fullmatch(name):
        return _cached(name)
    raise CheckpointError(f"model.checkpoint: there is no folder {name}; give a folder, a model id or {DEMO!r}")


def _demo() -> Path:
    try:
        folder: Path = importlib.import_module("talkwire_demo").PATH
    except ImportError as error:
        advice = "install the package talkwire-demo, or give a folder or a model id"
        raise CheckpointError(f"model.checkpoint: the demo voice is not installed; {advice}") from error
    return folder


def _cached(hub_id: str) -> Path:
    # Imported here: it takes 0.3 s, and most deployments name a folder.
    import huggingface_hub
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        return Path(huggingface_hub.snapshot_download(hub_id, local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError) as error:
        raise CheckpointError(
            f"model.checkpoint: {hub_id} is neither a folder nor a model in the local Hugging Face cache; "
            f"`hf download {hub_id}` puts it there"
        ) from error


# ---- what its files say


class _Section(msgspec.Struct, frozen=True):
    """A part of a JSON file; keys that are not named are not ours."""


class _Rope(_Section, frozen=True):
    rope_type: str = "default"
    rope_theta: float | None = None


class _Text(_Section, frozen=True):
    vocab_size: _Size
    hidden_size: _Size
    intermediate_size: _Size
    num_hidden_layers: _Size
    num_attention_heads: _Size
    num_key_value_heads: _Size
    head_dim: _Size | None = None
    rms_norm_eps: float = 1e-6
    rope_theta: float | None = None
    rope_parameters: _Rope | None = None
    rope_scaling: _Rope | None = None
    attention_bias: bool = False
    use_sliding_window: bool = False
    hidden_act: str = "silu"


class _Audio(_Section, frozen=True):
    num_codebooks: int = CODEBOOKS
    vocab_size: int = CODEBOOK_IDS
    tie_word_embeddings: bool = True


class _Acoustic(_Section, frozen=True):
    hidden_size: _Size
    decoder_hidden_size: _Size
    upsampling_ratios: tuple[_Size, ...]


class _Semantic(_Section, frozen=True):
    hidden_size: _Size


class _Codec(_Section, frozen=True):
    acoustic_model_config: _Acoustic
    semantic_model_config: _Semantic
    codebook_size: int = 1024
    codebook_dim: _Size = 64
    sample_rate: int = SAMPLE_RATE_HZ


class _Config(_Section, frozen=True):
    model_type: str
    text_config: _Text
    audio_encoder_config: _Audio = _Audio()
    codec_config: _Codec | None = None


class _Generation(_Section, frozen=True):
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    repetition_penalty: float | None = None
    do_sample: bool | None = None


def read_checkpoint(folder: Path, name: str = "") -> Checkpoint:
    """Reads and checks config.json and, where there is one, generation_config.json.

    Args:
        folder: what `resolve_checkpoint` gave.
        name: what the deployment calls it; empty: the folder's name.

    Raises:
        CheckpointError: a file is missing or broken, or says something that this talker or codec is not.
    """
    path = folder / "config.json"
    config = _read(path, _Config)
    if config.model_type != MODEL_TYPE:
        raise CheckpointError(f"{path}: model_type is {config.model_type!r}; only {MODEL_TYPE!r} is served")
    _check_audio(path, config.audio_encoder_config)
    return Checkpoint(
        folder=folder,
        name=name or folder.resolve().name,
        talker=_talker(path, config.text_config, config.audio_encoder_config.tie_word_embeddings),
        codec=_codec(path, config.codec_config),
        sampling=_sampling(folder / "generation_config.json"),
    )


def _read(path: Path, kind: type[_Json]) -> _Json:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path}: {error}") from error


def _require(path: Path, facts: dict[str, tuple[object, object]]) -> None:
    """Raises for the first key whose value is not the only one that is served."""
    for key, (value, served) in facts.items():
        if value != served:
            raise CheckpointError(f"{path}: {key} is {value!r}; only {served!r} is served")


def _check_audio(path: Path, audio: _Audio) -> None:
    _require(
        path,
        {
            "audio_encoder_config.num_codebooks": (audio.num_codebooks, CODEBOOKS),
            "audio_encoder_config.vocab_size": (audio.vocab_size, CODEBOOK_IDS),
        },
    )


def _talker(path: Path, text: _Text, tied: bool) -> TalkerConfig:
    rope = text.rope_parameters or text.rope_scaling or _Rope()
    _require(
        path,
        {
            "text_config.hidden_act": (text.hidden_act, "silu"),
            "text_config.attention_bias": (text.attention_bias, False),
            "text_config.use_sliding_window": (text.use_sliding_window, False),
            "text_config.rope_parameters.rope_type": (rope.rope_type, "default"),
        },
    )
    head_dim = 128 if text.head_dim is None else text.head_dim  # Qwen3's own default
    if text.num_attention_heads % text.num_key_value_heads or head_dim % 2:
        raise CheckpointError(
            f"{path}: text_config: {text.num_attention_heads} heads of {head_dim} over "
            f"{text.num_key_value_heads} key heads do not divide"
        )
    return TalkerConfig(
        layers=text.num_hidden_layers,
        width=text.hidden_size,
        heads=text.num_attention_heads,
        kv_heads=text.num_key_value_heads,
        head_dim=head_dim,
        ffn=text.intermediate_size,
        vocabulary=text.vocab_size,
        eps=text.rms_norm_eps,
        theta=text.rope_theta or rope.rope_theta or ROPE_THETA,
        tied=tied,
    )


def _codec(path: Path, codec: _Codec | None) -> CodecConfig:
    if codec is None:
        return CodecConfig()
    acoustic = codec.acoustic_model_config
    _require(
        path,
        {
            "codec_config.sample_rate": (codec.sample_rate, SAMPLE_RATE_HZ),
            "codec_config.codebook_size": (codec.codebook_size, CODEBOOK_IDS - 2),
            "samples of a frame (codec_config.acoustic_model_config.upsampling_ratios multiplied)": (
                math.prod(acoustic.upsampling_ratios),
                FRAME_SAMPLES,
            ),
        },
    )
    return CodecConfig(
        codes=codec.codebook_size,
        codebook_dim=codec.codebook_dim,
        hidden=acoustic.hidden_size + codec.semantic_model_config.hidden_size,
        latent=acoustic.hidden_size,
        decoder_hidden=acoustic.decoder_hidden_size,
        ratios=acoustic.upsampling_ratios,
    )


def _sampling(path: Path) -> SamplingChoice:
    if not path.exists():
        return SamplingChoice()
    given = _read(path, _Generation)
    choice = SamplingChoice(
        temperature=0.0 if given.do_sample is False else given.temperature,
        top_p=given.top_p,
        top_k=given.top_k,
        repetition_penalty=given.repetition_penalty,
    )
    try:
        return sampling.check(choice, field="")
    except InvalidArgumentError as error:
        raise CheckpointError(f"{path}: {error.message.lstrip('.')}") from error
