from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch

from talkwire_pipeline.delay import EOC
from talkwire_pipeline.sampling import Sampling
from talkwire_pipeline.talker.ids import IdSpace
from talkwire_pipeline.talker.parameters import GenerationSpec
from talkwire_pipeline.talker.state import TalkerState

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    pytest.mark.filterwarnings("ignore:Synchronization debug mode"),
]

COUNT = 32
STEPS = 30


@contextmanager
def no_synchronisation(device: torch.device) -> Iterator[None]:
    """On CUDA a call that waits for the device raises."""
    if device.type != "cuda":
        yield
        return
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")
        torch.cuda.synchronize()


def run(device: str, order: list[int], samplings: list[Sampling], logits: torch.Tensor) -> dict[int, list[list[int]]]:
    """Rows of the generations in `order`, stepped together on a device; `logits` [STEPS, COUNT, 8, 1026]."""
    place = torch.device(device)
    state = TalkerState(IdSpace(slots=COUNT + 1, text_vocabulary=10, bank_rows=8), 100, place)
    slots = [state.open(GenerationSpec(3, samplings[number])) for number in order]
    where, chosen = torch.tensor(slots, device=place), logits[:, order].to(place)
    positions = torch.arange(STEPS, device=place).unsqueeze(1).expand(-1, len(order)) + 2
    batches = []
    with no_synchronisation(place):
        for row in range(STEPS):
            ids = state.sample(chosen[row], where, positions[row])
            state.codes_at(ids, positions[row] + 1)
            batches.append(state.drain())  # what has arrived by now
    batches.append(state.drain())
    codes = np.concatenate([batch.codes for batch in batches])
    owners = np.concatenate([batch.slots for batch in batches])
    return {number: codes[owners == slot].tolist() for number, slot in zip(order, slots, strict=True)}


@pytest.mark.parametrize(
    "values", [{}, {"repetition_penalty": 1.2}, {"top_k": 0}, {"top_k": 0, "top_p": 1.0}, {"temperature": 0.0}]
)
def test_rows_are_those_of_the_cpu_alone_and_beside_others(values: dict[str, float]) -> None:
    samplings = [Sampling(seed=number, **(values if number % 2 else {})) for number in range(COUNT)]  # type: ignore[arg-type]
    logits = torch.randn(STEPS, COUNT, 8, 1026, generator=torch.Generator().manual_seed(0)) * 3
    logits[:, :, 0, EOC] = -50
    logits = logits.bfloat16()
    together = run("cuda", list(range(COUNT)), samplings, logits)
    assert {len(rows) for rows in together.values()} == {STEPS}
    assert together == run("cpu", list(range(COUNT)), samplings, logits)
    for number in (0, 1, 7):
        assert run("cuda", [number], samplings, logits)[number] == together[number]
