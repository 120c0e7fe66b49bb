"""The talker as a model of stock vLLM, the same under both of its model runners.

vLLM knows one id a position and nothing of codes. An id and its position say which row to embed (`TalkerState`), so
that whatever vLLM does to a batch (moved rows, chunked prefill, preemption, graphs that replay, steps scheduled ahead)
leads back to the same codes. `forward` passes slot and position along with the hidden states, in columns of their own;
`compute_logits`, which both runners call on just the rows to be sampled, outside of captured graphs, draws the codes
and answers with the next id as the only one that its greedy sampler can take.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any, ClassVar

import torch
from torch import nn
from torch.nn import functional
from vllm.model_executor.models.qwen3 import Qwen3Model
from vllm.model_executor.models.utils import AutoWeightsLoader, WeightsMapper

from talkwire_pipeline.checkpoint import TalkerConfig
from talkwire_pipeline.delay import CODEBOOK_SIZE
from talkwire_pipeline.geometry import CODEBOOKS
from talkwire_pipeline.layout import AUDIO_EMBEDDING, AUDIO_HEAD, FINAL_NORM, TEXT_EMBEDDING
from talkwire_pipeline.talker.state import TalkerState
from talkwire_pipeline.talker.vllm_config import backbone, sizes_of

IDENTITY_COLUMNS = 8
"""Columns behind each hidden state; 8 keep rows aligned to 16 bytes in half precision."""
_BYTE = 256  # the largest number up to which bfloat16 has every integer


_lent: TalkerState | None = None


def lend(state: TalkerState | None) -> None:
    """Sets the state that the next model of this process samples with. A process that is lent none makes its own."""
    global _lent
    _lent = state


class TalkerModel(nn.Module):
    """Backbone, fused audio embedding and head, and the draw.

    Attributes:
        state: slots, codes and draws.
    """

    packed_modules_mapping: ClassVar = {
        "qkv_proj": ["q_proj", "k_proj", "v_proj"],
        "gate_up_proj": ["gate_proj", "up_proj"],
    }
    hf_to_vllm_mapper = WeightsMapper(
        orig_to_new_prefix={
            TEXT_EMBEDDING: "model.embed_tokens.weight",
            AUDIO_EMBEDDING: "audio_embedding",
            AUDIO_HEAD: "audio_head",
            "tied.": None,  # the codec, and heads that draw no audio
            "body.layers.": "model.layers.",
            FINAL_NORM: "model.norm.weight",
        }
    )

    def __init__(self, *, vllm_config: Any, prefix: str = "") -> None:
        super().__init__()
        sizes = sizes_of(vllm_config.model_config.hf_config)
        talker, self._audio_token = sizes.talker, sizes.audio_token
        self.state = _lent or TalkerState(sizes.ids, sizes.max_positions, _device(), sizes.max_rows_per_step)
        self._width = talker.width
        self.model = Qwen3Model(vllm_config=_for_backbone(vllm_config, talker), prefix=prefix or "model")
        dtype = vllm_config.model_config.dtype
        fused = (CODEBOOKS * CODEBOOK_SIZE, talker.width)
        self.audio_embedding = nn.Parameter(torch.empty(fused, dtype=dtype), requires_grad=False)
        self.audio_head = (
            self.audio_embedding if talker.tied else nn.Parameter(torch.empty(fused, dtype=dtype), requires_grad=False)
        )
        self._offsets: torch.Tensor
        self._inputs: torch.Tensor
        self.register_buffer("_offsets", torch.arange(CODEBOOKS) * CODEBOOK_SIZE, persistent=False)
        # Graphs of parts of the backbone replay with the addresses that they were captured with.
        most = vllm_config.scheduler_config.max_num_batched_tokens
        self.register_buffer("_inputs", torch.zeros(most, talker.width, dtype=dtype), persistent=False)

    def embed_input_ids(self, input_ids: torch.Tensor) -> torch.Tensor:
        """The text's part of the input; vLLM wants it to be there."""
        return self._embed_text(input_ids.long())

    def _embed_text(self, ids: torch.Tensor) -> torch.Tensor:
        embedded: torch.Tensor = self.model.embed_tokens(self.state.text_ids(ids, self._audio_token))
        return embedded

    def forward(
        self,
        input_ids: torch.Tensor,
        positions: torch.Tensor,
        intermediate_tensors: Any = None,
        inputs_embeds: torch.Tensor | None = None,
        **_others: Any,
    ) -> torch.Tensor:
        """Hidden states [N, D + 8] of engine ids [N] at positions [N]."""
        ids, places = input_ids.long(), positions.long()
        codes = self.state.codes_at(ids, places)
        spoken = functional.embedding_bag(codes.clamp(min=0) + self._offsets, self.audio_embedding, mode="sum")
        rows = torch.where(codes[:, :1] >= 0, spoken, self._embed_text(ids))
        inputs = self._inputs[: len(rows)].copy_(rows)
        hidden = self.model(None, positions, None, inputs)
        return torch.cat((hidden, self._identity(ids, places).to(hidden.dtype)), 1)

    def _identity(self, ids: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """Slot and position of each id as bytes, [N, 8]. What is no step id has slot 0."""
        slots = torch.where(ids < self.state.ids.steps, ids % self.state.ids.slots, 0)
        parts = torch.stack((slots % _BYTE, slots // _BYTE, places % _BYTE, places // _BYTE), 1)
        return functional.pad(parts, (0, IDENTITY_COLUMNS - parts.shape[1]))

    def compute_logits(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """Logits [n, steps] of step ids for rows [n, D + 8]: 1 at the drawn one, else 0."""
        hidden = hidden_states[:, : self._width].contiguous()
        low_slot, high_slot, low, high = hidden_states[:, self._width :].round().long().unbind(1)[:4]
        logits = functional.linear(hidden, self.audio_head).view(-1, CODEBOOKS, CODEBOOK_SIZE)
        drawn = self.state.sample(logits, low_slot + _BYTE * high_slot, low + _BYTE * high)
        only = torch.zeros(len(drawn), self.state.ids.steps, dtype=torch.float32, device=drawn.device)
        return only.scatter_(1, drawn.unsqueeze(1), 1.0)

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> set[str]:
        """Names of what was loaded. That the checkpoint has what it must have was seen before (`tensors.locate`)."""
        loaded: set[str] = AutoWeightsLoader(self).load_weights(weights, mapper=self.hf_to_vllm_mapper)
        return loaded


def _device() -> torch.device:
    """Where a rank computes: vLLM has made it the process's own."""
    return torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")


def _for_backbone(vllm_config: Any, talker: TalkerConfig) -> Any:
    """vLLM's configuration with the tokenizer's vocabulary in place of the engine's: the text embedding has that."""
    most = vllm_config.model_config.max_model_len
    narrowed, model = copy.copy(vllm_config), copy.copy(vllm_config.model_config)
    model.hf_config = model.hf_text_config = backbone(talker, talker.vocabulary, most)
    narrowed.model_config = model
    return narrowed
