"""The talker's backbone: Qwen3 with one fused audio embedding and head, over keys and values kept by lane.

Shapes: N rows (one position of one lane each), D width, H query heads, G key heads, E head size, K codebooks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from talkwire_pipeline.checkpoint import CODEBOOK_IDS, CODEBOOKS, TalkerConfig
from talkwire_pipeline.talker.linear import Linear, can_pack, is_fp16, packed_linear, plain_linear
from talkwire_pipeline.weights import LayerWeights, TalkerWeights

CONTEXT_STEP = 32
"""Contexts of a shared attention call are rounded up to this, so that few shapes occur."""

_Attend = Callable[[int, torch.Tensor], torch.Tensor]
"""Takes a layer's number and its queries [N, H, E]; gives what they attend to, [N, H * E]."""


@dataclass(frozen=True, slots=True)
class _Layer:
    """A layer as it is computed with; `qk_norm` is [H + G, E], one row a head."""

    input_norm: torch.Tensor
    qkv: Linear
    qk_norm: torch.Tensor
    out: Linear
    ffn_norm: torch.Tensor
    gate_up: Linear
    down: Linear


class Backbone:
    """Embeds, runs the layers, gives logits. A lane is a row of the key and value store; who uses it is not known here.

    With fp16-stored weights and attention lane by lane, a row is bitwise the same whatever other rows share its call.
    """

    def __init__(
        self,
        config: TalkerConfig,
        weights: TalkerWeights,
        *,
        lanes: int,
        max_positions: int,
        device: torch.device,
        dtype: torch.dtype,
        pack: bool,
        lane_by_lane: bool,
    ) -> None:
        """Prepares the weights and allocates keys and values.

        Args:
            config: sizes.
            weights: as loaded.
            lanes: generations whose keys and values are kept.
            max_positions: positions of a lane.
            device: where everything lives.
            dtype: of activations, keys and values.
            pack: store each matrix as fp16 where that loses nothing (fp32 on a CPU only).
            lane_by_lane: decode each lane's attention in a call of its own, over its own length. A row then feels
                nothing of its neighbours; one call for all is better where launches cost more than work.
        """
        self.config = config
        self.device = device
        self.dtype = dtype
        self._pack = pack and dtype == torch.float32 and can_pack(device)
        self._lane_by_lane = lane_by_lane
        self._text_embedding = weights.text_embedding.to(device)
        self._audio_embedding = weights.audio_embedding.to(device)
        self._layers = [self._prepare(layer) for layer in weights.layers]
        self._norm = self._tensor(weights.norm)
        self._head = self._linear(weights.head)
        self._code_rows = torch.arange(CODEBOOKS, device=device) * CODEBOOK_IDS
        self._cos, self._sin = self._rotations(max_positions)
        shape = (config.layers, lanes, max_positions, 2 * config.kv_heads, config.head_dim)
        # Lane by lane, nothing reads what was not written, and untouched pages cost no memory.
        self._cache = (torch.empty if lane_by_lane else torch.zeros)(shape, dtype=dtype, device=device)

    # ---- preparing

    def _tensor(self, weight: torch.Tensor) -> torch.Tensor:
        return weight.to(self.device, self.dtype)

    def _linear(self, weight: torch.Tensor) -> Linear:
        if self._pack and is_fp16(weight):
            return packed_linear(weight)
        return plain_linear(self._tensor(weight))

    def _prepare(self, layer: LayerWeights) -> _Layer:
        heads, kv_heads = self.config.heads, self.config.kv_heads
        qk_norm = torch.cat([layer.q_norm.expand(heads, -1), layer.k_norm.expand(kv_heads, -1)])
        return _Layer(
            input_norm=self._tensor(layer.input_norm),
            qkv=self._linear(layer.qkv),
            qk_norm=self._tensor(qk_norm),
            out=self._linear(layer.out),
            ffn_norm=self._tensor(layer.ffn_norm),
            gate_up=self._linear(layer.gate_up),
            down=self._linear(layer.down),
        )

    def _rotations(self, positions: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosines and sines [positions, 1, E]; the sine's first half is negative, so that a roll does the rest."""
        size = self.config.head_dim
        halves = torch.arange(0, size, 2, dtype=torch.float32) / size
        angles = torch.outer(torch.arange(positions, dtype=torch.float32), self.config.theta**-halves)
        sines = angles.sin()
        cos, sin = torch.cat([angles.cos()] * 2, -1), torch.cat([-sines, sines], -1)
        return self._tensor(cos.unsqueeze(1)), self._tensor(sin.unsqueeze(1))

    # ---- ends: embeddings in, logits out

    def embed(self, text: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
        """Input rows [N, D].

        Args:
            text: [N] ids of the tokenizer, used where there are no codes.
            codes: [N, K]; a row of -1 is a text position.
        """
        audio = self._audio_embedding[codes.clamp(min=0) + self._code_rows].to(self.dtype).sum(1)
        return torch.where(codes[:, :1] >= 0, audio, self._text_embedding[text].to(self.dtype))

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """[N, D] as `decode` gives it to [N, K, 1026] fp32."""
        return self._head(hidden).float().view(-1, CODEBOOKS, CODEBOOK_IDS)

    # ---- the layers

    def prefill(self, x: torch.Tensor, lane: int, start: int) -> torch.Tensor:
        """Runs consecutive positions of one lane, filling its keys and values.

        Args:
            x: [N, D], the positions from `start` on.
            lane: whose they are.
            start: how many positions the lane has already.

        Returns:
            [N, D], normed.
        """
        count, end = x.shape[0], start + x.shape[0]
        positions = torch.arange(start, end, device=self.device)
        mask = torch.ones(count, end, dtype=torch.bool, device=self.device).tril(start)
        groups = self.config.heads // self.config.kv_heads
        keys, values = self._views(slice(lane, lane + 1), end)

        def attend(layer: int, q: torch.Tensor) -> torch.Tensor:
            grouped = q.view(count, -1, groups, q.shape[-1]).permute(1, 2, 0, 3).flatten(1, 2)
            seen = _attention(grouped.unsqueeze(0), keys[layer], values[layer], mask.repeat(groups, 1))
            return seen.view(-1, groups, count, q.shape[-1]).permute(2, 0, 1, 3).reshape(count, -1)

        return self._run(x, torch.full_like(positions, lane), positions, attend)

    def decode(self, x: torch.Tensor, positions: torch.Tensor, lengths: Sequence[int]) -> torch.Tensor:
        """Runs one position of each lane: row i is lane i.

        Args:
            x: [N, D]; rows behind `len(lengths)` only fill the batch up and come back meaningless.
            positions: [N] int64, where in their lanes the rows are.
            lengths: positions + 1 of the rows that count, on the host.

        Returns:
            [N, D], normed.
        """
        rows = x.shape[0]
        attend = self._each_lane(rows, lengths) if self._lane_by_lane else self._all_lanes(positions, lengths)
        return self._run(x, torch.arange(rows, device=self.device), positions, attend)

    def _run(self, x: torch.Tensor, lanes: torch.Tensor, positions: torch.Tensor, attend: _Attend) -> torch.Tensor:
        """All layers. `lanes`, `positions`: [N] int64, where the rows' keys and values go."""
        heads, kv_heads, size = self.config.heads, self.config.kv_heads, self.config.head_dim
        width, eps = self.config.width, self.config.eps
        cos, sin = self._cos[positions], self._sin[positions]
        for number, layer in enumerate(self._layers):
            h = F.rms_norm(x, (width,), layer.input_norm, eps)
            qkv = layer.qkv(h).view(-1, heads + 2 * kv_heads, size)
            qk = F.rms_norm(qkv[:, : heads + kv_heads], (size,), eps=eps) * layer.qk_norm
            qk = torch.addcmul(qk * cos, qk.roll(size // 2, -1), sin)
            qkv[:, heads : heads + kv_heads] = qk[:, heads:]
            self._cache[number].index_put_((lanes, positions), qkv[:, heads:])
            x = x + layer.out(attend(number, qk[:, :heads]))
            h = F.rms_norm(x, (width,), layer.ffn_norm, eps)
            gate, up = layer.gate_up(h).chunk(2, -1)
            x = x + layer.down(F.silu(gate) * up)
        return F.rms_norm(x, (width,), self._norm, eps)

    # ---- keys and values

    def _views(self, lanes: slice, length: int) -> tuple[tuple[torch.Tensor, ...], tuple[torch.Tensor, ...]]:
        """Keys and values of each layer, [lanes, G, length, E] views."""
        part = self._cache[:, lanes, :length].transpose(2, 3)
        keys, values = part.chunk(2, 2)
        return keys.unbind(0), values.unbind(0)

    def _each_lane(self, rows: int, lengths: Sequence[int]) -> _Attend:
        """Attention lane by lane over each one's own length: no mask, no gather, and nothing of its neighbours."""
        views = [self._views(slice(lane, lane + 1), length) for lane, length in enumerate(lengths)]
        shape = (rows, self.config.kv_heads, -1, self.config.head_dim)
        width = self.config.heads * self.config.head_dim
        rest = [torch.zeros(rows - len(lengths), width, dtype=self.dtype, device=self.device)]

        def attend(layer: int, q: torch.Tensor) -> torch.Tensor:
            grouped = q.reshape(shape).unsqueeze(1).unbind(0)
            seen = [
                _attention(row, keys[layer], values[layer]).reshape(1, -1)
                for row, (keys, values) in zip(grouped, views, strict=False)
            ]
            return torch.cat(seen + rest)

        return attend

    def _all_lanes(self, positions: torch.Tensor, lengths: Sequence[int]) -> _Attend:
        """Attention of all lanes in one call over the longest one's length."""
        rows = positions.shape[0]
        longest = min(-(-max(lengths) // CONTEXT_STEP) * CONTEXT_STEP, self._cache.shape[2])
        keys, values = self._views(slice(0, rows), longest)
        mask = (torch.arange(longest, device=self.device) <= positions.view(-1, 1)).view(rows, 1, 1, longest)

        def attend(layer: int, q: torch.Tensor) -> torch.Tensor:
            grouped = q.reshape(rows, self.config.kv_heads, -1, self.config.head_dim)
            return _attention(grouped, keys[layer], values[layer], mask).reshape(rows, -1)

        return attend

    def copy_lane(self, source: int, target: int, length: int) -> None:
        """Copies the first `length` positions of a lane."""
        self._cache[:, target, :length] = self._cache[:, source, :length]


def _attention(
    q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """Grouped queries as further rows of their key head: q [B, G, n, E], keys and values [B, G, T, E], no repeat."""
    return F.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
