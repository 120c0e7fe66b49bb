"""The kernels against the torch version, in Triton's interpreter on a CPU (twenty seconds a row) or on a GPU."""

from __future__ import annotations

import os

import pytest
import torch
from msgspec.structs import replace

from talkwire_pipeline.delay import BOC, EOC
from talkwire_pipeline.sampling import Sampling
from talkwire_pipeline.talker.ids import IdSpace
from talkwire_pipeline.talker.parameters import GenerationSpec
from talkwire_pipeline.talker.sampler import SLOT, Memory, Sampler, Work, make_sampler

DEVICE = torch.device(os.environ.get("TALKWIRE_TEST_DEVICE", "cpu"))
pytestmark = pytest.mark.skipif(
    os.environ.get("TALKWIRE_TEST_RUNNER", "v1") != "v2", reason="Triton is interpreted with v2 alone"
)
ROWS = 512 if DEVICE.type == "cuda" else 4
"""Rows of a call; the last one is of a free slot."""
POSITIONS = 40
PROMPT = 10
WAYS = (
    Sampling(temperature=0.7, top_k=50, top_p=0.95),
    Sampling(temperature=0.0, repetition_penalty=1.3),
    Sampling(temperature=2.0, top_k=0, top_p=0.8, repetition_penalty=0.5),
    Sampling(temperature=1.0, top_k=1026),
)
ALL = Work(wide=True, nucleus=True, penalise=True)


def make_memory() -> Memory:
    """Generations at all of their stages: before their first row, beginning, in full, ending, computed again."""
    dice = torch.Generator().manual_seed(1)
    memory = Memory.make(IdSpace(ROWS, text_vocabulary=100, bank_rows=8), POSITIONS, DEVICE)
    memory.parameters.reset()
    for slot in range(1, ROWS):
        way = WAYS[slot % len(WAYS)]
        memory.parameters.set(slot, GenerationSpec(PROMPT, replace(way, seed=2**62 + slot)), epoch=slot + 5)
    memory.seen.copy_(torch.rand(memory.seen.shape, generator=dice) < 0.1)
    history = torch.randint(0, 1024, memory.codes.shape, generator=dice)
    history[torch.rand(len(history), generator=dice) < 0.3, :3] = EOC
    history[torch.rand(len(history), generator=dice) < 0.1, :7] = EOC
    history[torch.rand(len(history), generator=dice) < 0.1, 5:] = BOC
    history[torch.rand(len(history), generator=dice) < 0.7] = -1
    memory.codes.copy_(history)
    return memory


def call(make: type[Sampler], seed: int) -> tuple[torch.Tensor, ...]:
    """Entry, ids, and what the memory holds behind a call."""
    dice = torch.Generator().manual_seed(seed)
    memory = make_memory()
    logits = (torch.randn(ROWS, 8, 1026, generator=dice) * 3).round(decimals=1)  # with many ties
    slots = (torch.randperm(ROWS, generator=dice)) % ROWS
    positions = torch.randint(0, POSITIONS + 3, (ROWS,), generator=dice)
    entry, ids = make(memory)(logits.to(DEVICE), slots.to(DEVICE), positions.to(DEVICE), ALL)
    wanted = entry[:, SLOT] > 0
    return wanted, entry[wanted], ids, memory.codes[: memory.trash], memory.seen[1:]


@pytest.mark.parametrize("seed", range(20) if DEVICE.type == "cuda" else [3])
def test_they_do_what_torch_does(seed: int) -> None:
    from talkwire_pipeline.talker.sampler_triton import FusedSampler

    for got, want in zip(call(FusedSampler, seed), call(Sampler, seed), strict=True):
        assert torch.equal(got, want)


@pytest.mark.skipif(DEVICE.type != "cuda", reason="on a CPU the torch version is the faster one")
def test_on_a_gpu_they_are_what_runs() -> None:
    assert type(make_sampler(make_memory())).__name__ == "FusedSampler"
