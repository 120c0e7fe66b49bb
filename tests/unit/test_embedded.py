"""The embedded runner: rows as transformers' Qwen3 gives them, and each generation's rows its own affair."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from support.checkpoints import TALKER, Tensors, write_checkpoint
from support.reference import ReferenceRunner
from support.talker import Talker
from talkwire_pipeline.checkpoint import read_checkpoint
from talkwire_pipeline.messages import Codes
from talkwire_pipeline.sampling import Sampling
from talkwire_pipeline.talker.embedded import Dtype, EmbeddedRunner
from talkwire_pipeline.talker.ids import IdSpace
from talkwire_pipeline.talker.linear import can_pack
from talkwire_pipeline.talker.state import TalkerState
from talkwire_pipeline.weights import TalkerWeights, load_talker

CPU = torch.device("cpu")
AUDIO = 3  # stands for `<|audio|>`
SLOTS = 8
MAX_LEN = 160
GREEDY = Sampling(temperature=0, top_k=0, top_p=1)
needs_packing = pytest.mark.skipif(not can_pack(CPU), reason="this machine does not multiply by fp16-stored weights")


def with_eager_end(tensors: Tensors) -> None:
    """Makes the code that ends a generation win often."""
    tensors["tied.embedding.modality_embeddings.0.embedding.weight"][1025] *= 2


@cache
def weights(ends: bool = False) -> TalkerWeights:
    with TemporaryDirectory() as folder:
        write_checkpoint(Path(folder), edit=with_eager_end if ends else lambda tensors: None)
        return load_talker(read_checkpoint(Path(folder)), CPU)


def make_state() -> TalkerState:
    return TalkerState(IdSpace(SLOTS + 1, TALKER.vocabulary, bank_rows=64), MAX_LEN, CPU)


def make_talker(*, chunk: int = 128, dtype: Dtype = "auto", ends: bool = False) -> Talker:
    state = make_state()
    runner = EmbeddedRunner(
        TALKER,
        weights(ends),
        state,
        state.ids,
        audio_token_id=AUDIO,
        max_model_len=MAX_LEN,
        max_num_batched_tokens=chunk,
        device=CPU,
        dtype=dtype,
    )
    return Talker(state, runner)


def prompt(length: int, seed: int = 0) -> list[int]:
    return np.random.default_rng(seed).integers(0, TALKER.vocabulary, length).tolist()


def reference_codes(frames: int) -> Codes:
    return np.random.default_rng(1).integers(0, 1024, (frames, 8)).astype(np.int16)


# ---- rows


@pytest.mark.parametrize("sampling", [GREEDY, Sampling(seed=5), Sampling(seed=6, repetition_penalty=1.3, top_p=0.8)])
@pytest.mark.parametrize("dtype", ["auto", "float32"])
def test_rows_are_those_of_transformers(sampling: Sampling, dtype: Dtype) -> None:
    ours, state = make_talker(chunk=16, dtype=dtype), make_state()
    theirs = Talker(state, ReferenceRunner(TALKER, weights(), state, AUDIO))
    lengths = [1, 40, 17, 0, 90]
    for length in lengths:
        ours.open(prompt(length, length), 20, sampling, reference_codes(9) if length == 17 else None)
        theirs.open(prompt(length, length), 20, sampling, reference_codes(9) if length == 17 else None)
    ours.finish()
    theirs.finish()
    assert ours.rows == theirs.rows
    assert [len(rows) for rows in ours.rows.values()] == [20] * len(lengths)


@dataclass(frozen=True)
class Plan:
    """What a generation is, when it joins, and after how many steps it is dropped."""

    joins: int
    length: int
    max_rows: int
    seed: int
    dropped: int | None


plans = st.builds(
    Plan,
    joins=st.integers(0, 12),
    length=st.integers(0, 70),
    max_rows=st.integers(1, 24),
    seed=st.integers(0, 3),
    dropped=st.none() | st.integers(1, 20),
)


def rows_together(all_plans: list[Plan]) -> list[list[Any]]:
    """Runs all plans at once; the rows of each."""
    talker, slots, rows = make_talker(chunk=16, ends=True), dict[int, int](), [[] for _ in all_plans]
    for step in range(max(plan.joins for plan in all_plans) + 1):
        for i, plan in enumerate(all_plans):
            if plan.joins == step:
                slots[i] = talker.open(prompt(plan.length, plan.seed), plan.max_rows, Sampling(seed=plan.seed))
            if plan.dropped is not None and plan.joins + plan.dropped == step:
                rows[i] = talker.rows[slots[i]]
                talker.close(slots.pop(i))
        talker.step()
    talker.finish()
    for i, slot in slots.items():
        rows[i] = talker.rows[slot]
    return rows


@cache
def rows_alone(length: int, max_rows: int, seed: int) -> list[Any]:
    talker = make_talker(chunk=16, ends=True)
    slot = talker.open(prompt(length, seed), max_rows, Sampling(seed=seed))
    talker.finish()
    return talker.rows[slot]


@needs_packing
@settings(max_examples=10, deadline=None)
@given(st.lists(plans, min_size=2, max_size=SLOTS))
def test_rows_are_the_same_alone_and_beside_others(all_plans: list[Plan]) -> None:
    for plan, rows in zip(all_plans, rows_together(all_plans), strict=True):
        alone = rows_alone(plan.length, plan.max_rows, plan.seed)
        assert rows == (alone if plan.dropped is None else alone[: len(rows)])


def test_chunks_of_a_prompt_change_nothing() -> None:
    rows = []
    for chunk in (1, 7, 64, 128):
        talker = make_talker(chunk=chunk)
        slot = talker.open(prompt(100), 15, GREEDY)
        talker.finish()
        rows.append(talker.rows[slot])
    assert rows[1:] == rows[:-1]


def test_seeds_tell_rows_apart() -> None:
    assert rows_alone(20, 15, 1) != rows_alone(20, 15, 2)


# ---- joining and leaving


def test_a_newcomer_delays_live_ones_by_one_chunk_a_step() -> None:
    talker = make_talker(chunk=16)
    live = talker.open(prompt(5), 60, GREEDY)
    assert talker.step() == [live]
    newcomers = [talker.open(prompt(50, seed), 60, GREEDY) for seed in (1, 2)]
    steps = [talker.step() for _ in range(8)]
    assert steps[:3] == [[live]] * 3
    assert steps[3] == [live, newcomers[0]]  # the fourth chunk was the last
    assert steps[6] == [live, newcomers[0]]
    assert steps[7] == [live, *newcomers]


def test_a_generation_ends_with_its_stop_row() -> None:
    talker = make_talker(ends=True)
    slot = talker.open(prompt(20), 120, Sampling(seed=0))
    talker.finish()
    assert slot in talker.ended
    assert len(talker.rows[slot]) < 120
    assert talker.rows[slot][-1][6] == 1025
    assert not talker.runner.step()


def test_a_generation_ends_at_its_cap() -> None:
    talker = make_talker()
    slots = [talker.open(prompt(4), rows, GREEDY) for rows in (1, 9)]
    talker.finish()
    assert [len(talker.rows[slot]) for slot in slots] == [1, 9]
    assert not talker.runner.step()


def test_nothing_to_do() -> None:
    assert not make_talker().runner.step()


@pytest.mark.parametrize("steps", [0, 1, 4])
def test_an_aborted_slot_gets_no_more_rows(steps: int) -> None:
    """Before its prefill, within it, and live."""
    talker = make_talker(chunk=16)
    other = talker.open(prompt(3), 30, GREEDY)
    talker.step()
    slot = talker.open(prompt(30), 30, GREEDY)
    for _ in range(steps):
        talker.step()
    talker.runner.abort(slot)
    assert talker.step() == [other]
    talker.runner.abort(slot)  # a no-op now


def test_abort_of_an_unknown_slot_is_a_no_op() -> None:
    make_talker().runner.abort(5)


def test_a_slot_is_used_again() -> None:
    talker = make_talker()
    first = talker.open(prompt(60), 40, GREEDY)
    for _ in range(5):
        talker.step()
    talker.close(first)
    for _ in range(SLOTS):
        slot = talker.open(prompt(20, 1), 10, GREEDY)
        talker.finish()
        talker.close(slot)
    fresh = make_talker()
    expected = fresh.open(prompt(20, 1), 10, GREEDY)
    fresh.finish()
    assert talker.rows[slot] == fresh.rows[expected]


def test_all_slots_at_once_and_one_more() -> None:
    talker = make_talker()
    for _ in range(SLOTS):
        talker.open(prompt(3), 5, GREEDY)
    with pytest.raises(ValueError, match="there are 8 slots, and all are taken"):
        talker.runner.add(1, [1], 1)
    talker.finish()
    assert all(len(rows) == 5 for rows in talker.rows.values())


@pytest.mark.parametrize(("length", "rows"), [(0, 5), (5, 0), (100, 61)])
def test_what_cannot_fit_is_refused(length: int, rows: int) -> None:
    with pytest.raises(ValueError, match=f"{length} prompt ids and {rows} rows: .* at most 160"):
        make_talker().runner.add(1, [1] * length, rows)


def test_the_longest_generation_fits() -> None:
    talker = make_talker()
    slot = talker.open(prompt(99), 60, GREEDY)
    talker.finish()
    assert len(talker.rows[slot]) == 60


def test_close_forgets_all() -> None:
    talker = make_talker()
    talker.open(prompt(3), 5, GREEDY)
    talker.step()
    talker.open(prompt(3), 5, GREEDY)
    talker.runner.close()
    assert not talker.runner.step()


def test_bfloat16_runs() -> None:
    talker = make_talker(dtype="bfloat16")
    slots = [talker.open(prompt(30, seed), 12, Sampling(seed=seed)) for seed in range(3)]
    talker.finish()
    assert [len(talker.rows[slot]) for slot in slots] == [12] * 3
