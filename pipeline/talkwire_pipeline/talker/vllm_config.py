"""A checkpoint's configuration as vLLM needs it: a Qwen3 whose vocabulary is our engine ids."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from transformers import PretrainedConfig, Qwen3Config

from talkwire_pipeline.checkpoint import TalkerConfig
from talkwire_pipeline.talker.ids import IdSpace


class HiggsConfig(PretrainedConfig):  # type: ignore[no-untyped-call]
    """config.json of a Higgs Audio v3 checkpoint. What of it counts is read by `checkpoint.py`, not from here.

    Attributes:
        text_config: the backbone; its `vocab_size` is the number of engine ids once `with_sizes` was applied.
    """

    model_type = "higgs_multimodal_qwen3"

    def __init__(self, text_config: dict[str, Any] | None = None, **others: Any) -> None:
        self.text_config = Qwen3Config(**{k: v for k, v in (text_config or {}).items() if k != "model_type"})
        super().__init__(**others)


@dataclass(frozen=True, slots=True)
class Sizes:
    """What a rank needs to make the talker's state by itself.

    Attributes:
        talker: sizes of the model.
        ids: the engine ids.
        max_positions: ids plus rows of the longest generation.
        max_rows_per_step: the most rows that a `sample` call is given.
        audio_token: the tokenizer's id that a step id without codes embeds as.
    """

    talker: TalkerConfig
    ids: IdSpace
    max_positions: int
    max_rows_per_step: int
    audio_token: int


def with_sizes(sizes: Sizes) -> Callable[[HiggsConfig], HiggsConfig]:
    """An override for vLLM: the sizes as our reader of checkpoints has them, and the engine ids as the vocabulary.

    vLLM must know the whole vocabulary: its second runner counts every sampled id in a table that it does not check.
    The sizes themselves go along for `sizes_of`.
    """
    return partial(_put, sizes)  # not a closure: it travels to other ranks


def _put(sizes: Sizes, config: HiggsConfig) -> HiggsConfig:
    config.text_config = backbone(sizes.talker, sizes.ids.size, sizes.max_positions)
    config.talkwire = asdict(sizes)
    return config


def sizes_of(config: HiggsConfig) -> Sizes:
    """The sizes that `with_sizes` has put in. Raises `RuntimeError` where nobody did."""
    given: dict[str, Any] | None = getattr(config, "talkwire", None)
    if given is None:
        raise RuntimeError("the talker runs inside of talkwire's stage: start talkwire-server, not vllm serve")
    return Sizes(**{**given, "talker": TalkerConfig(**given["talker"]), "ids": IdSpace(**given["ids"])})


def backbone(talker: TalkerConfig, vocabulary: int, max_positions: int) -> Qwen3Config:
    """The backbone alone, with a vocabulary of this size."""
    return Qwen3Config(
        vocab_size=vocabulary,
        hidden_size=talker.width,
        intermediate_size=talker.ffn,
        num_hidden_layers=talker.layers,
        num_attention_heads=talker.heads,
        num_key_value_heads=talker.kv_heads,
        head_dim=talker.head_dim,
        rms_norm_eps=talker.eps,
        rope_parameters={"rope_type": "default", "rope_theta": talker.theta},
        max_position_embeddings=max_positions,
        tie_word_embeddings=True,
        attention_bias=False,
        hidden_act="silu",
    )
