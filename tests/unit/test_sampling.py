"""Sampling values: ranges and who decides."""

import math

import pytest

from talkwire_pipeline.errors import InvalidArgumentError
from talkwire_pipeline.sampling import MAX_SEED, Sampling, SamplingChoice, check, resolve


def test_the_first_that_is_set_counts() -> None:
    values = resolve(SamplingChoice(top_k=5), SamplingChoice(top_k=9, temperature=0.3), seed=4)
    assert values == Sampling(temperature=0.3, top_p=0.95, top_k=5, repetition_penalty=1.0, seed=4)


def test_a_seed_that_is_given_is_kept() -> None:
    assert resolve(SamplingChoice(seed=0), seed=4).seed == 0


@pytest.mark.parametrize(
    "choice",
    [
        SamplingChoice(),
        SamplingChoice(temperature=0, top_p=1, top_k=0, repetition_penalty=2, seed=MAX_SEED),
        SamplingChoice(temperature=2, top_p=1e-9, top_k=1026, repetition_penalty=1e-9, seed=0),
    ],
)
def test_borders_are_inside(choice: SamplingChoice) -> None:
    assert check(choice) is choice


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1])
@pytest.mark.parametrize("name", ["temperature", "top_p", "top_k", "repetition_penalty", "seed"])
def test_what_no_value_can_be_is_refused(name: str, value: float) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        check(SamplingChoice(**{name: value}), "start.sampling")
    assert caught.value.field == f"start.sampling.{name}"
    assert str(value) in caught.value.message


@pytest.mark.parametrize(
    "choice",
    [
        SamplingChoice(temperature=2.01),
        SamplingChoice(top_p=0),
        SamplingChoice(top_p=1.01),
        SamplingChoice(top_k=1027),
        SamplingChoice(repetition_penalty=0),
        SamplingChoice(repetition_penalty=2.1),
        SamplingChoice(seed=MAX_SEED + 1),
    ],
)
def test_borders_are_kept(choice: SamplingChoice) -> None:
    with pytest.raises(InvalidArgumentError):
        check(choice)
