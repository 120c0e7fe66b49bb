"""The talker's state machine: what every generation has drawn, by (slot, position), and how the next row comes.

It knows ids and positions, nothing of batches, queues or KV caches, and so serves any runner. A position is a pure
function of what came before it, and is written once: a runner may compute a position again (after a preemption, in
another batch) and gets the codes that have already gone out.

The ramp-down needs no counter: EOC is drawn on codebook 0 only, so that codebook k is at its end exactly if codebook
k - 1 was in the row before, and the row whose codebooks 0 to 6 are at their end is the last one.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from talkwire_pipeline.delay import EOC, REAL_CODES, delay
from talkwire_pipeline.errors import ResourceExhaustedError
from talkwire_pipeline.geometry import CODEBOOKS
from talkwire_pipeline.messages import Codes
from talkwire_pipeline.sampling import Sampling
from talkwire_pipeline.talker.draw import NARROW
from talkwire_pipeline.talker.egress import Entry, make_egress
from talkwire_pipeline.talker.ids import IdSpace
from talkwire_pipeline.talker.parameters import GenerationSpec, effective_top_k
from talkwire_pipeline.talker.sampler import CODES, COLUMNS, EPOCH, POSITION, SLOT, Memory, Work, make_sampler


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Rows that left the device, in order; a slot may have several.

    Attributes:
        slots: [m] int64.
        steps: [m] int64, 0 for the first row of a generation; without gaps for each slot.
        codes: [m, 8] int16, delayed.
        last: [m] bool, the generation ended by itself with this row.
    """

    slots: npt.NDArray[np.int64]
    steps: npt.NDArray[np.int64]
    codes: Codes
    last: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.slots)


class TalkerState:
    """All generations of a talker.

    Slots run from 1 to `ids.slots - 1`; slot 0 is for rows of which nothing is wanted. All tensors are allocated
    here and keep their addresses.

    Args:
        ids: the id space.
        max_positions: ids plus rows of the longest generation.
        device: where the runner computes.
        max_rows_per_step: the most rows that a `sample` call is given.
    """

    def __init__(self, ids: IdSpace, max_positions: int, device: torch.device, max_rows_per_step: int = 256) -> None:
        if ids.slots < 2 or ids.step_fingerprints < 2:
            raise ValueError(f"slots and step_fingerprints must be at least 2: {ids}")
        self.ids = ids
        self.max_positions = max_positions
        self.device = device
        self._memory = Memory.make(ids, max_positions, device)
        self._sampler = make_sampler(self._memory)
        self._egress = make_egress(device, max_rows_per_step, COLUMNS)
        self._epochs = np.zeros(ids.slots, dtype=np.int64)
        self._next = np.zeros(ids.slots, dtype=np.int64)
        self._first = np.zeros(ids.slots, dtype=np.int64)
        self._epoch = 0
        self.reset()

    def reset(self) -> None:
        """As new: frees every slot, empties the bank, drops rows that were not taken. For after a warm-up."""
        self._memory.codes.fill_(-1)
        self._memory.parameters.reset()
        self._egress.clear()
        self._next.fill(-1)
        self._free = deque(range(1, self.ids.slots))
        self._live: dict[int, Sampling] = {}
        self._free_bank = deque(range(self.ids.bank_rows))
        self._choose_work()

    # ---- generations

    @property
    def free_slots(self) -> int:
        """How many generations may be opened."""
        return len(self._free)

    def open(self, spec: GenerationSpec) -> int:
        """Takes a slot, 1 or above.

        Raises `ResourceExhaustedError` if none is free, `ValueError` if the prompt cannot fit.
        """
        if not 1 <= spec.prompt_length <= self.max_positions:
            raise ValueError(f"prompt_length {spec.prompt_length} is not in 1 to {self.max_positions}")
        if not self._free:
            raise ResourceExhaustedError(f"all {self.ids.slots - 1} slots of the talker are taken")
        slot = self._free.popleft()
        self._epoch += 1
        self._epochs[slot] = self._epoch
        self._first[slot] = self._next[slot] = spec.prompt_length - 1
        self._live[slot] = spec.sampling
        self._choose_work()
        self._memory.parameters.set(slot, spec, self._epoch)
        start, end = slot * self._memory.stride, (slot + 1) * self._memory.stride
        self._memory.codes[start + spec.prompt_length - 1 : end] = -1
        if spec.sampling.repetition_penalty != 1:
            self._memory.seen[slot] = False
        return slot

    def close(self, slot: int) -> None:
        """Gives the slot back; rows of it that are still on their way are dropped. A no-op for a free slot."""
        if self._live.pop(slot, None) is not None:
            self._next[slot] = -1
            self._memory.parameters.clear(slot)
            self._free.append(slot)
            self._choose_work()

    def _choose_work(self) -> None:
        live = self._live.values()
        self._work = Work(
            wide=any(effective_top_k(sampling) > NARROW for sampling in live),
            nucleus=any(sampling.top_p < 1 for sampling in live),
            penalise=any(sampling.repetition_penalty != 1 for sampling in live),
        )

    # ---- references

    @property
    def free_bank_rows(self) -> int:
        """How many rows of references there is room for; a reference of T frames takes T + 7."""
        return len(self._free_bank)

    def put_reference(self, codes: Codes) -> list[int]:
        """Keeps a reference, `codes` [T, 8] undelayed: the T + 7 ids that stand for it in a prompt.

        Raises `ResourceExhaustedError` if the bank has no room, `ValueError` if `codes` are none.
        """
        if codes.ndim != 2 or codes.shape[1] != CODEBOOKS or not ((codes >= 0) & (codes < REAL_CODES)).all():
            raise ValueError(f"a reference is [T, {CODEBOOKS}] codes of 0 to {REAL_CODES - 1}")
        rows = delay(codes)
        if len(rows) > len(self._free_bank):
            raise ResourceExhaustedError(f"{len(rows)} reference rows, but room for {len(self._free_bank)}")
        places = torch.tensor([self._free_bank.popleft() for _ in rows], device=self.device)
        data = torch.from_numpy(rows).to(self.device)
        self._memory.codes[places + self._memory.bank_at] = data
        prints = self._memory.fingerprints(data.long(), self.ids.bank_fingerprints)
        result: list[int] = (self.ids.bank_base + prints * self.ids.bank_rows + places).tolist()
        return result

    def drop_reference(self, ids: list[int]) -> None:
        """Gives back the rows behind what `put_reference` returned. No prompt that may still run has them."""
        self._free_bank.extend((id_ - self.ids.bank_base) % self.ids.bank_rows for id_ in ids)

    # ---- ids

    def step_id(self, slot: int) -> int:
        """The id that ends a prompt in `slot`: a step id of it, that embeds as the `<|audio|>` token."""
        return slot

    def codes_at(self, ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Codes to embed at each id: [N, 8] int64, all -1 where the id stands for text.

        `ids` and `positions` are [N] int64. Fixed addresses and no synchronisation: fit for a CUDA graph.
        """
        stride = self._memory.stride
        history = (ids % self.ids.slots) * stride + positions.clamp(0, stride - 1)
        bank = (ids - self.ids.bank_base) % self.ids.bank_rows + self._memory.bank_at
        at = torch.where(ids < self.ids.steps, history, 0)
        at = torch.where(ids >= self.ids.bank_base, bank, at)
        return self._memory.codes.index_select(0, at).long()

    def text_ids(self, ids: torch.Tensor, audio_token: int) -> torch.Tensor:
        """The tokenizer's ids [N] of engine ids [N]; `audio_token` for those that are none.

        Only those count where `codes_at` says -1.
        """
        is_text = (ids >= self.ids.steps) & (ids < self.ids.bank_base)
        return torch.where(is_text, ids - self.ids.steps, audio_token)

    # ---- rows

    def sample(self, logits: torch.Tensor, slots: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Draws the row that follows each (slot, position): the ids [n] int64 to feed at `positions + 1`.

        `logits` [n, 8, 1026]; `slots` and `positions` [n] are those of the last id that was fed. `STOP` comes with
        the generation's last row. A row of which nothing is wanted (slot 0, a free slot, an unfinished prompt) may
        hold anything; its id means nothing and is never `STOP`. Never waits for the device.
        """
        entry, ids = self._sampler(logits, slots, positions, self._work)
        self._egress.put(entry)
        return ids

    @property
    def pending(self) -> bool:
        """Whether rows were sampled that `drain` has not looked at, because they are still on their way."""
        return self._egress.pending

    def take(self) -> tuple[list[Entry], bool]:
        """What has left the device, and whether more is on its way: for a copy of this state in another process."""
        return self._egress.take(), self._egress.pending

    def drain(self) -> RowBatch:
        """The rows that have left the device since the last call, each once.

        What belongs to a generation that was closed, or was computed again, is not among them. Raises
        `EgressOverrunError` if it was not called for too many steps.
        """
        fresh = [self._fresh(entry) for entry in self._egress.take()]
        entries = np.concatenate(fresh) if fresh else np.empty((0, COLUMNS), dtype=np.int32)
        slots = entries[:, SLOT].astype(np.int64)
        codes = entries[:, CODES:].astype(np.int16)
        return RowBatch(slots, entries[:, POSITION] - self._first[slots], codes, codes[:, CODEBOOKS - 2] == EOC)

    def _fresh(self, entry: Entry) -> Entry:
        """The rows of an entry that are the next ones of a live generation."""
        slots, epochs, positions = entry[:, SLOT], entry[:, EPOCH], entry[:, POSITION]
        rows: Entry = entry[(slots > 0) & (epochs == self._epochs[slots]) & (positions == self._next[slots])]
        ended = rows[:, CODES + CODEBOOKS - 2] == EOC
        self._next[rows[:, SLOT]] = np.where(ended, -1, rows[:, POSITION] + 1)
        return rows
