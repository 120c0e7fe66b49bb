"""What each slot draws with, as one table on the device: one copy to open a generation, one look-up a step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from talkwire_pipeline.delay import CODEBOOK_SIZE
from talkwire_pipeline.sampling import Sampling
from talkwire_pipeline.talker.rng import stream_keys

LENGTH, EPOCH, TOP_K, TEMPERATURE, NOISE, TOP_P, PENALTY, KEYS, WIDTH = 0, 1, 2, 4, 5, 6, 7, 8, 16
"""Columns of the table, all int64; those from TEMPERATURE to before KEYS hold the bits of float64."""
_NEVER = 1 << 40  # prompt length of a slot that draws nothing: its steps are all negative
_COLDEST = 1e-6  # as good as greedy, and no logit divided by it overflows


@dataclass(frozen=True, slots=True)
class GenerationSpec:
    """What a generation needs of the state.

    Attributes:
        prompt_length: ids of the prompt, the last one (a step id of the slot) included.
        sampling: how its codes are drawn.
    """

    prompt_length: int
    sampling: Sampling


@dataclass(frozen=True, slots=True)
class DrawValues:
    """Values of a draw by row, each [n, 1, 1] but the keys.

    Attributes:
        keys: [n, 8, 1] int64, see `talkwire_pipeline.talker.rng`.
        top_k: int64, `CODEBOOK_SIZE` for off.
        temperature: float64, 1 for a greedy row.
        noise: float64, what the noise is multiplied by: 0 for a greedy row, else 1.
        top_p: float64, 2 for off.
        penalty: float64, 1 for off.
    """

    keys: torch.Tensor
    top_k: torch.Tensor
    temperature: torch.Tensor
    noise: torch.Tensor
    top_p: torch.Tensor
    penalty: torch.Tensor


def effective_top_k(sampling: Sampling) -> int:
    """How many codes are candidates: all of them if top_k is off."""
    return min(sampling.top_k, CODEBOOK_SIZE) or CODEBOOK_SIZE


class ParameterTable:
    """The table of `slots` slots."""

    def __init__(self, slots: int, device: torch.device) -> None:
        self._device = device
        self.table = torch.zeros(slots, WIDTH, dtype=torch.int64, device=device)
        """[slots, 16] int64, by the columns above."""

    def reset(self) -> None:
        """No slot draws anything."""
        self.table.zero_()
        self.table[:, LENGTH] = _NEVER
        self.table.view(torch.float64)[:, TEMPERATURE:KEYS] = 1.0

    def set(self, slot: int, spec: GenerationSpec, epoch: int) -> None:
        """The slot draws as `spec` says, from now on."""
        self.table[slot] = torch.from_numpy(_encoded(spec, epoch)).to(self._device)

    def clear(self, slot: int) -> None:
        """The slot draws nothing."""
        self.table[slot, LENGTH] = _NEVER

    def look_up(self, slots: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, DrawValues]:
        """Prompt lengths [n], epochs [n] and values of `slots` [n]."""
        rows = self.table.index_select(0, slots)
        wide = rows.unsqueeze(2)
        floats = wide.view(torch.float64)
        values = DrawValues(
            keys=wide[:, KEYS:],
            top_k=wide[:, TOP_K : TOP_K + 1],
            temperature=floats[:, TEMPERATURE : TEMPERATURE + 1],
            noise=floats[:, NOISE : NOISE + 1],
            top_p=floats[:, TOP_P : TOP_P + 1],
            penalty=floats[:, PENALTY : PENALTY + 1],
        )
        return rows[:, LENGTH], rows[:, EPOCH], values


def _encoded(spec: GenerationSpec, epoch: int) -> npt.NDArray[np.int64]:
    """A slot's row."""
    sampling = spec.sampling
    greedy = sampling.temperature == 0
    row = np.zeros(WIDTH, dtype=np.int64)
    row[[LENGTH, EPOCH, TOP_K]] = spec.prompt_length, epoch, effective_top_k(sampling)
    row.view(np.float64)[TEMPERATURE:KEYS] = (
        1.0 if greedy else max(sampling.temperature, _COLDEST),
        0.0 if greedy else 1.0,
        sampling.top_p if sampling.top_p < 1 else 2.0,
        sampling.repetition_penalty,
    )
    row[KEYS:] = stream_keys(sampling.seed)
    return row
