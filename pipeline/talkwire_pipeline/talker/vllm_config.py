"""A checkpoint's configuration as vLLM needs it: a Qwen3 whose vocabulary is our engine ids."""

from __future__ import annotations

from collections.abc import Callable
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


def with_sizes(talker: TalkerConfig, ids: IdSpace, max_positions: int) -> Callable[[HiggsConfig], HiggsConfig]:
    """An override for vLLM: the sizes as our reader of checkpoints has them, and the engine ids as the vocabulary.

    vLLM must know the whole vocabulary: its second runner counts every sampled id in a table that it does not check.
    """

    def override(config: HiggsConfig) -> HiggsConfig:
        config.text_config = backbone(talker, ids.size, max_positions)
        return config

    return override


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
