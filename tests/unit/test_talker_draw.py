from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from talkwire_pipeline.sampling import MAX_SEED, Sampling
from talkwire_pipeline.talker.draw import Draw
from talkwire_pipeline.talker.parameters import GenerationSpec, ParameterTable
from talkwire_pipeline.talker.rng import uniform

CPU = torch.device("cpu")
WORD = (1 << 64) - 1


def split_mix(word: int, *, whole: bool) -> int:
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & WORD
    return word ^ (word >> 31) if whole else word


def naive_uniform(seed: int, step: int, codebook: int, code: int) -> float:
    gamma = 0x9E3779B97F4A7C15
    key = split_mix((split_mix(seed, whole=True) + (codebook + 1) * gamma) & WORD, whole=True)
    return ((split_mix((key + (step * 1026 + code) * gamma) & WORD, whole=False) >> 12) + 0.5) / 2**52


def naive_draw(logits: np.ndarray, step: int, codebook: int, sampling: Sampling, seen: set[int]) -> int:
    """One codebook's draw of `logits` [1026], written as the rules read."""
    best: list[tuple[float, int]] = []
    for code in range(1026):
        if code == 1024 or (code == 1025 and codebook > 0):
            continue
        value = logits[code]
        if code in seen:
            penalty = np.float32(sampling.repetition_penalty)
            value = value / penalty if value > 0 else value * penalty
        best.append((float(value), code))
    best.sort(key=lambda pair: (-pair[0], pair[1]))
    if sampling.temperature == 0:
        return best[0][1]
    best = [(value / sampling.temperature, code) for value, code in best][: sampling.top_k or None]
    weights = [math.exp(value - best[0][0]) for value, _ in best]
    kept, reached = 0, 0.0
    while kept < len(best) and (sampling.top_p >= 1 or reached < sampling.top_p * sum(weights)):
        reached += weights[kept]
        kept += 1
    scores = [value - math.log(-math.log(naive_uniform(sampling.seed, step, codebook, code))) for value, code in best]
    return best[max(range(kept), key=lambda rank: scores[rank])][1]


def draw(
    logits: torch.Tensor, samplings: Sequence[Sampling], steps: Sequence[int], seen: torch.Tensor | None = None
) -> torch.Tensor:
    """Codes [n, 8] of `logits` [n, 8, 1026], all work of a draw switched on only as the rows need it."""
    table = ParameterTable(len(samplings), CPU)
    table.reset()
    for row, sampling in enumerate(samplings):
        table.set(row, GenerationSpec(1, sampling), epoch=1)
    _, _, values = table.look_up(torch.arange(len(samplings)))
    wide = any(not 0 < sampling.top_k <= 64 for sampling in samplings)
    nucleus = any(sampling.top_p < 1 for sampling in samplings)
    return Draw(CPU)(logits, torch.tensor(list(steps), dtype=torch.int64), values, seen, wide, nucleus)


samplings = st.builds(
    Sampling,
    temperature=st.sampled_from([0.0, 1e-9, 0.3, 1.0, 2.0]),
    top_p=st.sampled_from([1e-6, 0.2, 0.8, 0.95, 1.0]),
    top_k=st.sampled_from([0, 1, 5, 50, 64, 65, 1026]),
    repetition_penalty=st.sampled_from([0.5, 1.0, 1.3, 2.0]),
    seed=st.integers(0, MAX_SEED),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(samplings, min_size=1, max_size=4), st.integers(0, 3000), st.integers(0, 2**31), st.booleans())
def test_a_draw_follows_the_rules(rows: list[Sampling], step: int, seed: int, coarse: bool) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(len(rows), 8, 1026, generator=generator) * 4
    if coarse:  # bfloat16 has many equal logits
        logits = logits.bfloat16()
    seen = torch.rand(logits.shape, generator=generator) < 0.2
    codes = draw(logits, rows, [step + row for row in range(len(rows))], seen)
    plain = logits.float().numpy()
    for row, sampling in enumerate(rows):
        for codebook in range(8):
            known = set(torch.nonzero(seen[row, codebook]).flatten().tolist())
            expected = naive_draw(plain[row, codebook], step + row, codebook, sampling, known)
            assert codes[row, codebook] == expected


@settings(max_examples=40, deadline=None)
@given(st.lists(samplings, min_size=2, max_size=8), st.integers(0, 2**31))
def test_a_row_does_not_depend_on_its_neighbours(rows: list[Sampling], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = (torch.randn(len(rows), 8, 1026, generator=generator) * 3).bfloat16()
    together = draw(logits, rows, range(len(rows)))
    for row, sampling in enumerate(rows):
        assert torch.equal(draw(logits[row : row + 1], [sampling], [row])[0], together[row])


def test_work_that_no_row_needs_changes_nothing() -> None:
    sampling = Sampling(top_k=20, top_p=1.0, seed=5)
    logits = torch.randn(3, 8, 1026, generator=torch.Generator().manual_seed(0))
    table = ParameterTable(3, CPU)
    for row in range(3):
        table.set(row, GenerationSpec(1, sampling), epoch=1)
    _, _, values = table.look_up(torch.arange(3))
    plain = Draw(CPU)(logits, torch.arange(3), values, None, False, False)
    all_on = Draw(CPU)(logits, torch.arange(3), values, torch.ones(3, 8, 1026, dtype=torch.bool), True, True)
    assert torch.equal(plain, all_on)


def test_equal_logits_go_to_the_lowest_code() -> None:
    codes = draw(torch.zeros(1, 8, 1026), [Sampling(temperature=0)], [0])
    assert codes.tolist() == [[0] * 8]
    top = draw(torch.zeros(200, 8, 1026), [Sampling(top_k=3, seed=seed) for seed in range(200)], [0] * 200)
    assert set(top.flatten().tolist()) == {0, 1, 2}


def test_markers_are_drawn_only_where_they_may_be() -> None:
    logits = torch.full((1, 8, 1026), -50.0)
    logits[..., 1024:] = 50
    logits[..., 7] = 0
    assert draw(logits, [Sampling(seed=1)], [0]).tolist() == [[1025, 7, 7, 7, 7, 7, 7, 7]]


def test_no_rows() -> None:
    assert draw(torch.empty(0, 8, 1026), [], []).shape == (0, 8)


@pytest.mark.parametrize("top_k", [5, 0])
def test_draws_have_the_distribution_of_the_softmax(top_k: int) -> None:
    shares = np.array([0.5, 0.25, 0.15, 0.07, 0.03])
    logits = torch.full((500, 8, 1026), -torch.inf)
    logits[..., 100:105] = torch.from_numpy(np.log(shares)).float()
    rows = [Sampling(temperature=1, top_k=top_k, top_p=1, seed=9)] * 500
    codes = draw(logits, rows, range(500)).numpy()
    counts = np.bincount(codes.flatten() - 100, minlength=5)
    expected = shares * 4000
    assert ((counts - expected) ** 2 / expected).sum() < 18.47  # chi-square, 4 degrees of freedom, 0.001


def test_noise_is_uniform_over_steps_codebooks_and_codes() -> None:
    keys = torch.tensor([naive_key(3, codebook) for codebook in range(8)]).view(1, 8, 1)
    codes = torch.arange(1026).expand(20, 8, 1026)
    numbers = uniform(keys, torch.arange(20).view(-1, 1, 1), codes).numpy()
    assert 0 < numbers.min() < numbers.max() < 1
    assert len(np.unique(numbers)) == numbers.size
    for part in (numbers, numbers[:, 0], numbers[0, :, :]):
        counts = np.histogram(part, bins=64, range=(0, 1))[0]
        expected = counts.sum() / 64
        assert ((counts - expected) ** 2 / expected).sum() < 103.4  # 63 degrees of freedom, 0.001
    for pair in ((numbers[:-1], numbers[1:]), (numbers[:, :-1], numbers[:, 1:]), (numbers[..., :-1], numbers[..., 1:])):
        assert abs(np.corrcoef(pair[0].flatten(), pair[1].flatten())[0, 1]) < 0.01


def naive_key(seed: int, codebook: int) -> int:
    key = split_mix((split_mix(seed, whole=True) + (codebook + 1) * 0x9E3779B97F4A7C15) & WORD, whole=True)
    return key - (1 << 64) if key >> 63 else key
