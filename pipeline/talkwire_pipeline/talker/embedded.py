"""The embedded runner: continuous batching over the plain PyTorch backbone, in this process.

A newcomer is prefilled alone, one bounded chunk a step, in a lane of its own; all but its last prompt id, which is
its first decode. Live generations hold the lanes from 0 on without a gap, so that a step decodes a plain slice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from talkwire_pipeline.checkpoint import TalkerConfig
from talkwire_pipeline.deploy.schema import Dtype
from talkwire_pipeline.devices import talker_dtype
from talkwire_pipeline.talker.ids import STOP, IdSpace
from talkwire_pipeline.talker.qwen3 import Backbone
from talkwire_pipeline.talker.state import TalkerState
from talkwire_pipeline.weights import TalkerWeights

SMALLEST_BATCH = 4
"""Batches are filled up to this, and doubled from there: with 1 or 2 rows, matrix products differ in the last bit."""


@dataclass(slots=True)
class _Generation:
    """A generation that this runner holds.

    Attributes:
        slot: the state's slot.
        prompt: [n] engine ids.
        max_rows: the cap.
        done: prompt ids that are prefilled.
        rows: rows drawn.
    """

    slot: int
    prompt: torch.Tensor
    max_rows: int
    done: int = 0
    rows: int = 0

    @property
    def length(self) -> int:
        """Positions with keys and values once the next id is decoded."""
        return self.prompt.shape[0] + self.rows


class EmbeddedRunner:
    """A `Runner`. Not to be shared between threads.

    With fp16-stored weights on a CPU a generation's rows are bitwise the same alone and beside others.
    """

    def __init__(
        self,
        config: TalkerConfig,
        weights: TalkerWeights,
        state: TalkerState,
        ids: IdSpace,
        *,
        audio_token_id: int,
        max_model_len: int,
        max_num_batched_tokens: int,
        device: torch.device,
        dtype: Dtype = "auto",
    ) -> None:
        """Prepares the backbone and allocates keys and values for `ids.slots - 1` generations.

        Args:
            config: sizes of the talker.
            weights: as loaded; not needed afterwards.
            state: slots, codes and draws.
            ids: the engine ids.
            audio_token_id: the tokenizer's id that a step without codes embeds as (`<|audio|>`).
            max_model_len: prompt ids plus rows of one generation.
            max_num_batched_tokens: prompt ids of one prefill chunk.
            device: where it runs.
            dtype: `auto` is fp32 on fp16-stored weights on a CPU, bfloat16 elsewhere; `float32` stores fp32.
        """
        self._state = state
        self._ids = ids
        self._audio_token_id = audio_token_id
        self._max_model_len = max_model_len
        self._chunk = max_num_batched_tokens
        self._device = device
        self._newcomers: deque[_Generation] = deque()  # only the first one is partly prefilled
        self._live: list[_Generation] = []  # by lane
        self._prefill_lane = _batch(ids.slots - 1)
        self._backbone = Backbone(
            config,
            weights,
            lanes=self._prefill_lane + 1,
            max_positions=max_model_len,
            device=device,
            dtype=getattr(torch, talker_dtype(dtype, device)),
            pack=dtype == "auto",
            lane_by_lane=device.type == "cpu",
        )
        # By lane, on the device: the id to feed next, its position, the slot. What a free lane holds only fills up.
        self._next = torch.full((self._prefill_lane,), ids.steps, device=device)
        self._positions = torch.zeros_like(self._next)
        self._slots = torch.zeros_like(self._next)

    # ---- Runner

    def add(self, slot: int, prompt_ids: Sequence[int], max_rows: int) -> None:
        """Takes a generation in from the next step on (`Runner.add`).

        Raises:
            ValueError: no prompt or no rows, more than `max_model_len` of both, or more generations than slots.
        """
        if not prompt_ids or max_rows < 1 or len(prompt_ids) + max_rows > self._max_model_len:
            raise ValueError(
                f"{len(prompt_ids)} prompt ids and {max_rows} rows: each must be at least 1, "
                f"and both together at most {self._max_model_len}"
            )
        if len(self._live) + len(self._newcomers) >= self._ids.slots - 1:
            raise ValueError(f"there are {self._ids.slots - 1} slots, and all are taken")
        prompt = torch.tensor(prompt_ids, dtype=torch.int64, device=self._device)
        self._newcomers.append(_Generation(slot, prompt, max_rows))

    def abort(self, slot: int) -> None:
        """Leaves the slot at once (`Runner.abort`)."""
        for lane, generation in enumerate(self._live):
            if generation.slot == slot:
                self._leave(lane)
                return
        for generation in self._newcomers:
            if generation.slot == slot:
                self._newcomers.remove(generation)
                return

    @torch.inference_mode()
    def step(self) -> bool:
        """At most one prefill chunk, then one row for every live generation (`Runner.step`)."""
        if self._newcomers:
            self._prefill(self._newcomers[0])
        elif not self._live:
            return False
        if self._live:
            self._decode()
        return True

    def stats(self) -> dict[str, float]:
        """See `Runner.stats`: every slot has keys and values of its own."""
        return {"kv_used_ratio": (len(self._live) + len(self._newcomers)) / (self._ids.slots - 1)}

    def close(self) -> None:
        """Forgets all generations (`Runner.close`). Memory goes with the runner."""
        self._newcomers.clear()
        self._live.clear()

    # ---- steps

    def _embed(self, ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Input rows [N, D] of engine ids [N] at positions [N]."""
        codes = self._state.codes_at(ids, positions)
        return self._backbone.embed(self._state.text_ids(ids, self._audio_token_id), codes)

    def _prefill(self, newcomer: _Generation) -> None:
        """The next chunk of its prompt; behind the last one it goes live."""
        last = newcomer.prompt.shape[0] - 1
        end = min(newcomer.done + self._chunk, last)
        if end > newcomer.done:
            positions = torch.arange(newcomer.done, end, device=self._device)
            x = self._embed(newcomer.prompt[newcomer.done : end], positions)
            self._backbone.prefill(x, self._prefill_lane, newcomer.done)
            newcomer.done = end
        if end == last:
            self._newcomers.popleft()
            self._join(newcomer)

    def _decode(self) -> None:
        """One row for every live generation."""
        count = len(self._live)
        rows = _batch(count)
        positions = self._positions[:rows]
        lengths = [generation.length for generation in self._live]
        hidden = self._backbone.decode(self._embed(self._next[:rows], positions), positions, lengths)
        logits = self._backbone.logits(hidden)[:count]
        drawn = self._state.sample(logits, self._slots[:count], positions[:count])
        self._next[:count] = drawn
        self._positions[:count] += 1
        ended = [self._has_ended(generation, id_) for generation, id_ in zip(self._live, drawn.tolist(), strict=True)]
        for lane in reversed(range(count)):  # from behind: what moves into a lane has been looked at
            if ended[lane]:
                self._leave(lane)

    def _has_ended(self, generation: _Generation, drawn: int) -> bool:
        generation.rows += 1
        return drawn == STOP or generation.rows == generation.max_rows

    # ---- lanes

    def _join(self, newcomer: _Generation) -> None:
        lane, last = len(self._live), newcomer.done
        self._backbone.copy_lane(self._prefill_lane, lane, last)
        self._next[lane] = newcomer.prompt[last]
        self._positions[lane] = last
        self._slots[lane] = newcomer.slot
        self._live.append(newcomer)

    def _leave(self, lane: int) -> None:
        """Frees a lane; the last one moves into the gap."""
        moved = self._live.pop()
        last = len(self._live)
        if lane != last:
            self._live[lane] = moved
            self._backbone.copy_lane(last, lane, moved.length - 1)
            for by_lane in (self._next, self._positions, self._slots):
                by_lane[lane] = by_lane[last]
        self._next[last] = self._ids.steps
        self._positions[last] = 0
        self._slots[last] = 0


def _batch(rows: int) -> int:
    """Rows of a batch that holds so many: 4, 8, 16, ..."""
    return max(SMALLEST_BATCH, 1 << (rows - 1).bit_length())
