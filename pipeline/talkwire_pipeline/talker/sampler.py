"""One step of the talker's state: from logits to the rows that follow, written where they belong.

`Sampler` is written in torch and says what is right. On CUDA, where its launches take longer than its work,
`talker.sampler_triton` does the same in two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch

from talkwire_pipeline.delay import BOC, CODEBOOK_SIZE, EOC
from talkwire_pipeline.geometry import CODEBOOKS
from talkwire_pipeline.talker.draw import Draw
from talkwire_pipeline.talker.ids import STOP, IdSpace
from talkwire_pipeline.talker.parameters import ParameterTable
from talkwire_pipeline.talker.rng import mixed, signed

SLOT, EPOCH, POSITION, CODES = 0, 1, 2, 3
"""Columns of an egress entry; the row's eight codes begin at the last."""
COLUMNS = CODES + CODEBOOKS
_FACTORS = [signed(mixed(codebook + 1)) | 1 for codebook in range(CODEBOOKS)]  # of a multilinear hash


class Work(NamedTuple):
    """What a draw must do: work that no live generation needs is left out, and would change nothing.

    Attributes:
        wide: some generation has more candidates than `talker.draw.NARROW`.
        nucleus: some generation has a top_p.
        penalise: some generation has a repetition penalty.
    """

    wide: bool
    nucleus: bool
    penalise: bool


@dataclass(frozen=True, slots=True)
class Memory:
    """The tensors of all generations. They keep their addresses.

    Attributes:
        ids: the id space.
        stride: rows of `codes` for each slot: one a position, and one more.
        codes: [slots * stride + bank_rows + 1, 8] int16. Row `slot * stride + position` holds the codes fed at that
            position, -1 where text is; then comes the bank, then one row that takes what must not be kept. Row 0
            (slot 0) is never written and stands for text.
        seen: [slots, 8, 1026] bool, the codes that a generation with a penalty has drawn.
        parameters: what each slot draws with.
        factors: [8] int64 of the fingerprints.
    """

    ids: IdSpace
    stride: int
    codes: torch.Tensor
    seen: torch.Tensor
    parameters: ParameterTable
    factors: torch.Tensor

    @classmethod
    def make(cls, ids: IdSpace, max_positions: int, device: torch.device) -> Memory:
        """For generations of at most `max_positions` ids and rows."""
        stride = max_positions + 1
        with torch.inference_mode(False):  # an inference tensor could not be written outside of that mode
            rows = ids.slots * stride + ids.bank_rows + 1
            return cls(
                ids,
                stride,
                codes=torch.full((rows, CODEBOOKS), -1, dtype=torch.int16, device=device),
                seen=torch.zeros(ids.slots, CODEBOOKS, CODEBOOK_SIZE, dtype=torch.bool, device=device),
                parameters=ParameterTable(ids.slots, device),
                factors=torch.tensor(_FACTORS, device=device),
            )

    @property
    def bank_at(self) -> int:
        """The first row of the bank."""
        return self.ids.slots * self.stride

    @property
    def trash(self) -> int:
        """The row that takes what must not be kept."""
        return self.bank_at + self.ids.bank_rows

    def fingerprints(self, codes: torch.Tensor, count: int) -> torch.Tensor:
        """A number below `count` for each row of `codes` [n, 8] int64, by its content: [n] int64."""
        return ((codes * self.factors).sum(-1) >> 33) % count


def make_sampler(memory: Memory) -> Sampler:
    """The sampler for the device that the memory is on."""
    if memory.codes.is_cuda and torch.version.cuda:
        from talkwire_pipeline.talker.sampler_triton import FusedSampler

        return FusedSampler(memory)
    return Sampler(memory)


class Sampler:
    """Draws rows, keeps them in the memory, and says which ids to feed next; in torch."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        device = memory.codes.device
        with torch.inference_mode(False):
            self._codebook = torch.arange(CODEBOOKS, device=device)
            self._before = (self._codebook - 1).clamp_(min=0)
            self._draw = Draw(device)

    def __call__(
        self, logits: torch.Tensor, slots: torch.Tensor, positions: torch.Tensor, work: Work
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The egress entry [n, 11] int32 and the next ids [n] int64; see `TalkerState.sample` for the arguments."""
        memory = self._memory
        slots = slots.long().clamp(0, memory.ids.slots - 1)
        positions = positions.long().clamp(0, memory.stride - 2)
        lengths, epochs, values = memory.parameters.look_up(slots)
        steps = positions + 1 - lengths
        wanted = steps >= 0
        at = slots * memory.stride + positions
        seen = memory.seen.index_select(0, slots) if work.penalise else None
        drawn = self._draw(logits, steps, values, seen, work.wide, work.nucleus)
        row = self._patterned(drawn, steps, memory.codes.index_select(0, at))
        at += 1
        kept = memory.codes.index_select(0, at)
        row = torch.where(kept >= 0, kept.long(), row)
        memory.codes.index_copy_(0, torch.where(wanted, at, memory.trash), row.short())
        owners = torch.where(wanted, slots, 0)
        if seen is not None:
            self._mark_seen(owners, row)
        head = torch.stack((owners, epochs, positions), 1)
        return torch.cat((head, row), 1).int(), self._next_ids(row, slots, wanted)

    def _mark_seen(self, owners: torch.Tensor, row: torch.Tensor) -> None:
        at = (owners.unsqueeze(1) * CODEBOOKS + self._codebook) * CODEBOOK_SIZE + row
        self._memory.seen.view(-1).index_fill_(0, at.view(-1), True)  # assigning by index would wait for the device

    def _patterned(self, drawn: torch.Tensor, steps: torch.Tensor, previous: torch.Tensor) -> torch.Tensor:
        """`drawn` [n, 8] with BOC where a codebook has not begun and EOC where it has ended."""
        ended = previous.index_select(1, self._before) == EOC
        return drawn.masked_fill_(self._codebook > steps.unsqueeze(1), BOC).masked_fill_(ended, EOC)

    def _next_ids(self, row: torch.Tensor, slots: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        ids = self._memory.ids
        prints = self._memory.fingerprints(row, ids.step_fingerprints)
        last = row[:, CODEBOOKS - 2] == EOC
        following = (prints * ids.slots).add_(slots).masked_fill_(last, STOP)
        return torch.where(wanted, following, ids.slots)
