"""The backbone against transformers' Qwen3 on the same weights, and rows that do not feel their neighbours."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from support.checkpoints import TALKER, write_checkpoint
from support.reference import qwen3_model
from talkwire_pipeline.checkpoint import read_checkpoint
from talkwire_pipeline.talker.linear import can_pack
from talkwire_pipeline.talker.qwen3 import Backbone
from talkwire_pipeline.weights import TalkerWeights, load_talker

CPU = torch.device("cpu")
LANES = 8
needs_packing = pytest.mark.skipif(not can_pack(CPU), reason="this machine does not multiply by fp16-stored weights")


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> TalkerWeights:
    return load_talker(read_checkpoint(write_checkpoint(tmp_path_factory.mktemp("checkpoint"))), CPU)


@pytest.fixture(scope="module")
def reference(weights: TalkerWeights) -> Any:
    return qwen3_model(TALKER, weights)


def backbone(weights: TalkerWeights, *, pack: bool = True, device: str = "cpu", lane_by_lane: bool = True) -> Backbone:
    return Backbone(
        TALKER,
        weights,
        lanes=LANES,
        max_positions=128,
        device=torch.device(device),
        dtype=torch.float32,
        pack=pack,
        lane_by_lane=lane_by_lane,
    )


def inputs(count: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(count, TALKER.width, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("pack", [True, False])
@pytest.mark.parametrize("prefilled", [0, 1, 37])
def test_logits_are_transformers(weights: TalkerWeights, reference: Any, pack: bool, prefilled: int) -> None:
    x = inputs(40)
    ours = backbone(weights, pack=pack)
    with torch.inference_mode():
        rows = [ours.prefill(x[:prefilled], 0, 0)] if prefilled else []
        rows += [ours.decode(x[at : at + 1], torch.tensor([at]), [at + 1]) for at in range(prefilled, 40)]
        theirs = reference(inputs_embeds=x.unsqueeze(0)).last_hidden_state[0]
        expected = (theirs @ weights.head.float().T).view(40, 8, 1026)
        torch.testing.assert_close(ours.logits(torch.cat(rows)), expected, rtol=0, atol=1e-4)
        assert torch.equal(ours.logits(torch.cat(rows)).argmax(-1), expected.argmax(-1))


def test_prefill_in_chunks_is_prefill_at_once(weights: TalkerWeights) -> None:
    x = inputs(50)
    ours = backbone(weights)
    with torch.inference_mode():
        whole = ours.prefill(x, 3, 0)
        chunks = [ours.prefill(x[start : start + 16], 5, start) for start in range(0, 50, 16)]
        torch.testing.assert_close(torch.cat(chunks), whole, rtol=0, atol=1e-5)
        after = ours.decode(inputs(1, 9).expand(LANES, -1), torch.full((LANES,), 50), [51] * LANES)
        torch.testing.assert_close(after[3], after[5], rtol=0, atol=1e-5)


@needs_packing
@pytest.mark.parametrize("seed", range(5))
def test_a_row_is_bitwise_the_same_alone_and_beside_others(weights: TalkerWeights, seed: int) -> None:
    lengths = torch.randint(1, 100, (LANES,), generator=torch.Generator().manual_seed(seed)).tolist()
    together, alone = backbone(weights), backbone(weights)
    x = inputs(LANES, seed + 100)
    with torch.inference_mode():
        for lane, length in enumerate(lengths):
            together.prefill(inputs(length, lane), lane, 0)
        beside = together.decode(x, torch.tensor(lengths), [length + 1 for length in lengths])
        for lane, length in enumerate(lengths):
            alone.prefill(inputs(length, lane), 0, 0)
            row = alone.decode(x[lane].expand(4, -1), torch.full((4,), length), [length + 1])[0]
            assert torch.equal(row, beside[lane])
            assert torch.equal(alone.logits(row.expand(4, -1))[0], together.logits(beside)[lane])


def test_one_attention_call_for_all_lanes_gives_the_same(weights: TalkerWeights) -> None:
    each, shared = backbone(weights), backbone(weights, lane_by_lane=False)
    lengths = [3, 40, 17, 127]
    ends = [length + 1 for length in lengths]
    x, positions = inputs(4, 7), torch.tensor(lengths)
    with torch.inference_mode():
        for lane, length in enumerate(lengths):
            each.prefill(inputs(length, lane), lane, 0)
            shared.prefill(inputs(length, lane), lane, 0)
        expected = each.decode(x, positions, ends)
        torch.testing.assert_close(shared.decode(x, positions, ends), expected, rtol=0, atol=1e-5)


def test_a_lane_can_be_copied(weights: TalkerWeights) -> None:
    ours = backbone(weights)
    with torch.inference_mode():
        ours.prefill(inputs(30), 7, 0)
        ours.copy_lane(7, 2, 30)
        rows = ours.decode(inputs(1, 9).expand(LANES, -1), torch.full((LANES,), 30), [31] * LANES)
    assert torch.equal(rows[2], rows[7])


def test_embeddings(weights: TalkerWeights) -> None:
    ours = backbone(weights)
    codes = torch.randint(0, 1026, (3, 8), generator=torch.Generator().manual_seed(0))
    codes[1] = -1
    rows = ours.embed(torch.tensor([5, 6, 7]), codes)
    assert torch.equal(rows[1], weights.text_embedding[6].float())
    expected = sum(weights.audio_embedding[k * 1026 + int(code)].float() for k, code in enumerate(codes[2]))
    torch.testing.assert_close(rows[2], expected)


@pytest.mark.gpu
def test_a_gpu_gives_the_same(weights: TalkerWeights) -> None:
    cpu, gpu = backbone(weights, pack=False), backbone(weights, device="cuda", lane_by_lane=False)
    x = inputs(20)
    with torch.inference_mode():
        expected = torch.cat([cpu.prefill(x[:19], 0, 0), cpu.decode(x[19:], torch.tensor([19]), [20])])
        x = x.cuda()
        got = torch.cat([gpu.prefill(x[:19], 0, 0), gpu.decode(x[19:], torch.tensor([19]).cuda(), [20])])
    torch.testing.assert_close(got.cpu(), expected, rtol=0, atol=1e-4)
