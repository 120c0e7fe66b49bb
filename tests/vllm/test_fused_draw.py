"""The kernel against the torch version, in Triton's interpreter on a CPU (twenty seconds a row) or on a GPU."""

from __future__ import annotations

import os

import pytest
import torch

from talkwire_pipeline.sampling import Sampling
from talkwire_pipeline.talker.draw import Draw
from talkwire_pipeline.talker.parameters import GenerationSpec, ParameterTable

DEVICE = torch.device(os.environ.get("TALKWIRE_TEST_DEVICE", "cpu"))
pytestmark = pytest.mark.skipif(
    os.environ.get("TALKWIRE_TEST_RUNNER", "v1") != "v2", reason="Triton is interpreted with v2 alone"
)
SAMPLINGS = (
    Sampling(temperature=0.7, top_k=50, top_p=0.95, seed=1),
    Sampling(temperature=0.0, repetition_penalty=1.3, seed=2),
    Sampling(temperature=2.0, top_k=0, top_p=0.8, repetition_penalty=0.5, seed=2**62 + 3),
)


def test_it_draws_what_torch_draws() -> None:
    from talkwire_pipeline.talker.draw_triton import FusedDraw

    dice = torch.Generator().manual_seed(1)
    rows = len(SAMPLINGS)
    logits = (torch.randn(rows, 8, 1026, generator=dice) * 3).round(decimals=1).to(DEVICE)  # with many ties
    seen = (torch.rand(rows, 8, 1026, generator=dice) < 0.1).to(DEVICE)
    steps = torch.tensor([0, 7, 250], device=DEVICE)
    table = ParameterTable(rows, DEVICE)
    table.reset()
    for row, sampling in enumerate(SAMPLINGS):
        table.set(row, GenerationSpec(1, sampling), epoch=1)
    _, _, values = table.look_up(torch.arange(rows, device=DEVICE))
    want, got = (make(DEVICE)(logits, steps, values, seen, True, True) for make in (Draw, FusedDraw))
    assert torch.equal(got, want)
