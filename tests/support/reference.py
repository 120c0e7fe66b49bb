"""A runner over transformers' Qwen3Model: one generation after the other, everything computed anew at each step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from transformers.models.qwen3.configuration_qwen3 import Qwen3Config
from transformers.models.qwen3.modeling_qwen3 import Qwen3Model

from talkwire_pipeline.checkpoint import TalkerConfig
from talkwire_pipeline.talker.ids import STOP
from talkwire_pipeline.talker.state import TalkerState
from talkwire_pipeline.weights import TalkerWeights


def qwen3_model(config: TalkerConfig, weights: TalkerWeights) -> Qwen3Model:
    """transformers' model with these weights, fp32."""
    model = Qwen3Model(
        Qwen3Config(
            vocab_size=config.vocabulary,
            hidden_size=config.width,
            intermediate_size=config.ffn,
            num_hidden_layers=config.layers,
            num_attention_heads=config.heads,
            num_key_value_heads=config.kv_heads,
            head_dim=config.head_dim,
            rms_norm_eps=config.eps,
            rope_parameters={"rope_type": "default", "rope_theta": config.theta},
        )
    )
    model.load_state_dict(dict(_named(config, weights)))
    return model.eval()


def _named(config: TalkerConfig, weights: TalkerWeights) -> Iterator[tuple[str, torch.Tensor]]:
    """The weights by transformers' names."""
    yield "embed_tokens.weight", weights.text_embedding
    yield "norm.weight", weights.norm
    queries, keys = config.heads * config.head_dim, config.kv_heads * config.head_dim
    for i, layer in enumerate(weights.layers):
        q, k, v = layer.qkv.split([queries, keys, keys])
        gate, up = layer.gate_up.chunk(2)
        yield f"layers.{i}.input_layernorm.weight", layer.input_norm
        yield f"layers.{i}.post_attention_layernorm.weight", layer.ffn_norm
        yield f"layers.{i}.self_attn.q_proj.weight", q
        yield f"layers.{i}.self_attn.k_proj.weight", k
        yield f"layers.{i}.self_attn.v_proj.weight", v
        yield f"layers.{i}.self_attn.o_proj.weight", layer.out
        yield f"layers.{i}.self_attn.q_norm.weight", layer.q_norm
        yield f"layers.{i}.self_attn.k_norm.weight", layer.k_norm
        yield f"layers.{i}.mlp.gate_proj.weight", gate
        yield f"layers.{i}.mlp.up_proj.weight", up
        yield f"layers.{i}.mlp.down_proj.weight", layer.down


@dataclass
class _Generation:
    slot: int
    ids: list[int]
    rows_left: int


class ReferenceRunner:
    """A `Runner` that is slow and plain."""

    def __init__(self, config: TalkerConfig, weights: TalkerWeights, state: TalkerState, audio_token: int) -> None:
        self._model = qwen3_model(config, weights)
        self._text = weights.text_embedding.float()
        self._audio = weights.audio_embedding.float().view(8, 1026, -1)
        self._head = weights.head.float()
        self._state = state
        self._audio_token = audio_token
        self._live: list[_Generation] = []

    def add(self, slot: int, prompt_ids: Sequence[int], max_rows: int) -> None:
        self._live.append(_Generation(slot, list(prompt_ids), max_rows))

    def abort(self, slot: int) -> None:
        self._live = [generation for generation in self._live if generation.slot != slot]

    def close(self) -> None:
        self._live.clear()

    @torch.inference_mode()
    def step(self) -> bool:
        if not self._live:
            return False
        generation = self._live[0]
        hidden = self._model(inputs_embeds=self._embedded(generation.ids)).last_hidden_state[:, -1]
        logits = (hidden @ self._head.T).view(1, 8, 1026)
        position = torch.tensor([len(generation.ids) - 1])
        drawn = int(self._state.sample(logits, torch.tensor([generation.slot]), position))
        generation.ids.append(drawn)
        generation.rows_left -= 1
        if drawn == STOP or not generation.rows_left:
            self._live.pop(0)
        return True

    def _embedded(self, ids: list[int]) -> torch.Tensor:
        """[1, n, D]."""
        engine_ids = torch.tensor(ids)
        rows = []
        for id_, codes in zip(ids, self._state.codes_at(engine_ids, torch.arange(len(ids))), strict=True):
            if codes[0] >= 0:
                rows.append(sum(self._audio[k, code] for k, code in enumerate(codes)))
            elif id_ < self._state.ids.steps:
                rows.append(self._text[self._audio_token])
            else:
                rows.append(self._text[id_ - self._state.ids.steps])
        return torch.stack(rows).unsqueeze(0)
