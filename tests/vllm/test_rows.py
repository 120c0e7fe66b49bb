"""Rows under vLLM are those of the embedded runner, whatever vLLM does to its batches."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from support import demo_talker
from support.demo_talker import checkpoint
from support.talker import Talker
from talkwire_pipeline.deploy.schema import RunnerOptions
from talkwire_pipeline.deploy.schema import Talker as Section
from talkwire_pipeline.messages import Codes
from talkwire_pipeline.sampling import Sampling
from talkwire_pipeline.talker.ids import IdSpace
from talkwire_pipeline.talker.replicas import ReplicatedState
from talkwire_pipeline.talker.state import TalkerState
from talkwire_pipeline.talker.vllm_runner import EngineSpec, VllmRunner, rows_per_step

RUNNER: Any = os.environ.get("TALKWIRE_TEST_RUNNER", "v1")
DEVICE = torch.device(os.environ.get("TALKWIRE_TEST_DEVICE", "cpu"))
SLOTS = 8
MAX_ROWS = 300
BANK_ROWS = 128
SECTION = Section(
    max_num_seqs=SLOTS,
    max_model_len=512,
    max_num_batched_tokens=64,
    dtype="float32",
    gpu_memory_utilization=0.1,
    attention_backend=None if DEVICE.type == "cpu" else "TRITON_ATTN",  # the one that takes float32
)
TEXTS = (
    *demo_talker.TEXTS,
    "Good morning, this is the front desk speaking.",
    "Your table by the window is ready.",
    "The next train leaves from platform two.",
    "Please bring a warm coat.",
    "I have found three rooms.",
    "Thank you for waiting.",
    "It gets cold after sunset.",
    "They look out over the garden.",
    "The kettle is on.",
    "Tea will be ready soon.",
    "Who is there?",
    "Not today, thank you.",
)


def sampling(number: int) -> Sampling:
    """A seed of its own for each text, and all of the ways to draw among them."""
    penalty = 1.1 if RUNNER == "v1" and number % 7 == 3 else 1.0
    temperature = 0.0 if number % 7 == 5 else 0.7
    return Sampling(
        temperature=temperature, top_k=50 if number % 3 else 0, top_p=0.95, seed=number, repetition_penalty=penalty
    )


def prompts() -> tuple[list[int], ...]:
    return demo_talker.prompts(TEXTS)


def make_ids() -> IdSpace:
    return IdSpace(SLOTS + 1, checkpoint().talker.vocabulary, bank_rows=BANK_ROWS)


def make_state() -> TalkerState:
    return TalkerState(make_ids(), SECTION.max_model_len, DEVICE, max_rows_per_step=rows_per_step(SECTION))


def make_embedded() -> Talker:
    sizes = {"max_model_len": SECTION.max_model_len, "chunk": SECTION.max_num_batched_tokens}
    return demo_talker.embedded(make_state(), **sizes, dtype="float32")


Engine = Callable[..., Talker]
"""Starts an engine with arguments of vLLM's own; one at a time."""


@pytest.fixture
def engine() -> Iterator[Engine]:
    started: list[VllmRunner] = []

    def start(ranks: int = 1, **extra: Any) -> Talker:
        state = make_state() if ranks == 1 else ReplicatedState(make_ids(), SECTION.max_model_len)
        options, token = RunnerOptions(model_runner=RUNNER), prompts()[0][-1]
        started.append(VllmRunner(EngineSpec(checkpoint(), state, DEVICE, token, SECTION, options, ranks, extra)))
        return Talker(state, started[-1])

    yield start
    for runner in started:
        runner.close()


def spoken(talker: Talker, numbers: list[int], reference: Codes | None = None) -> dict[int, list[Any]]:
    """Rows of these texts, spoken at once."""
    slots = {n: talker.open(prompts()[n][:-1], MAX_ROWS, sampling(n), reference) for n in numbers}
    talker.finish()
    rows = {n: talker.rows[slot] for n, slot in slots.items()}
    for slot in slots.values():
        talker.close(slot)
    return rows


def eights() -> list[list[int]]:
    numbers = list(range(len(TEXTS)))
    return [numbers[start : start + SLOTS] for start in range(0, len(numbers), SLOTS)]


@cache
def expected() -> dict[int, list[Any]]:
    talker = make_embedded()
    return {number: rows for batch in eights() for number, rows in spoken(talker, batch).items()}


def test_rows_are_the_embedded_runners_alone_and_eight_at_a_time(engine: Engine) -> None:
    talker = engine()
    together = {number: rows for batch in eights() for number, rows in spoken(talker, batch).items()}
    assert together == expected()
    alone = range(len(TEXTS)) if RUNNER == "v1" else (0, 5)
    for number in alone:
        assert spoken(talker, [number])[number] == expected()[number]


def test_rows_survive_preemption_and_neighbours_that_are_dropped(engine: Engine) -> None:
    """Too few blocks for all: vLLM throws running requests out and computes them again."""
    talker = engine(block_size=32, num_gpu_blocks_override=18)
    scheduler = talker.runner._client.engine_core.scheduler  # type: ignore[attr-defined]
    dice, waiting, live = random.Random(1), list(range(len(TEXTS))) * 2, dict[int, int]()
    preempted = kept = 0
    while waiting or live:
        while waiting and talker.state.free_slots:
            number = waiting.pop(0)
            live[talker.open(prompts()[number][:-1], MAX_ROWS, sampling(number))] = number
        talker.step()
        preempted += sum(request.num_preemptions > 0 for request in scheduler.waiting)
        if live and dice.random() < 0.05:
            slot = dice.choice(list(live))
            talker.close(slot)
            talker.ended.discard(slot)
            del live[slot]
        for slot in [slot for slot in live if slot in talker.ended]:
            number = live.pop(slot)
            assert talker.rows[slot] == expected()[number]
            talker.close(slot)
            talker.ended.discard(slot)
            kept += 1
    assert preempted > 0
    assert talker.runner.stats()["preemptions_total"] > 0
    assert 0 <= talker.runner.stats()["kv_used_ratio"] <= 1
    assert kept > len(TEXTS) / 2
    assert not talker.runner.step()


def test_a_reference_is_the_same_and_its_rows_may_be_reused(engine: Engine) -> None:
    dice = np.random.default_rng(3)
    references = [dice.integers(0, 1024, (frames, 8)).astype(np.int16) for frames in (40, 60)]
    ours, theirs = engine(block_size=32), make_embedded()
    for reference in (references[0], references[1], references[0]):
        got, want = (spoken_with(talker, reference) for talker in (ours, theirs))
        assert got == want
    stats = ours.runner.stats()
    assert 0 < stats["prefix_hits_total"] < stats["prefix_queries_total"]


def spoken_with(talker: Talker, reference: Codes) -> list[list[Any]]:
    """Two texts behind one reference, whose rows are given back afterwards."""
    ids = talker.state.put_reference(reference)
    rows = []
    for number in (0, 1):
        prompt = prompts()[number][:-1]
        slot = talker.open_with(ids, prompt, 60, sampling(number))
        talker.finish()
        rows.append(talker.rows[slot])
        talker.close(slot)
    talker.state.drop_reference(ids)
    return rows


@pytest.mark.skipif(RUNNER == "v2", reason="Triton's interpreter is for one process")
def test_two_ranks_that_share_the_model_give_the_same_rows(engine: Engine) -> None:
    talker = engine(ranks=2)
    first, second = spoken(talker, list(range(SLOTS))), spoken(talker, [3, 5])
    together = {**first, **second}
    same = sum(rows == expected()[number] for number, rows in together.items())
    print(f"{same} of {len(together)} texts have the embedded runner's rows")
    assert same > len(together) / 2  # sums over two halves round differently
    assert second == {number: first[number] for number in second}
    assert spoken_with(talker, np.full((20, 8), 7, np.int16))


@pytest.mark.skipif(RUNNER == "v1", reason="v1 takes it")
def test_v2_was_asked_for_and_runs(engine: Engine) -> None:
    from talkwire_pipeline.talker.vllm_runner import running

    assert running(engine().runner._client) == "v2"  # type: ignore[attr-defined]
