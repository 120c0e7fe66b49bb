"""Sampling values of a generation: which count, and what they may be. Pure."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from talkwire_pipeline.errors import InvalidArgumentError

Runner: TypeAlias = Literal["embedded", "v1", "v2"]
"""What steps the talker."""

MAX_SEED = 2**63 - 1
"""The largest seed: seeds fit a signed 64-bit field."""


class Sampling(msgspec.Struct, frozen=True, kw_only=True):
    """Values that are all set: what a generation is drawn with.

    Attributes:
        temperature: 0 is greedy.
        top_p: the smallest set of codes whose probability reaches it is kept; 1 is off.
        top_k: so many best codes are kept; 0 is off.
        repetition_penalty: above 1 makes codes that the codebook has already drawn less likely; 1 is off.
        seed: same seed, same draw.
    """

    temperature: float = 1.0
    top_p: float = 0.95
    top_k: int = 50
    repetition_penalty: float = 1.0
    seed: int = 0


class SamplingChoice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Values of which any may be unset: a request's, a deploy file's, or a checkpoint's."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    repetition_penalty: float | None = None
    seed: int | None = None


_RANGES: dict[str, tuple[float, float, bool]] = {  # lowest, highest, whether the lowest itself is allowed
    "temperature": (0.0, 2.0, True),
    "top_p": (0.0, 1.0, False),
    "top_k": (0, 1026, True),
    "repetition_penalty": (0.0, 2.0, False),
    "seed": (0, MAX_SEED, True),
}
_WHOLE = ("top_k", "seed")
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "n": (1,),
    "best_of": (1,),
    "use_beam_search": (False,),
    "length_penalty": (1,),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "repetition_penalty": (1,),
    "min_p": (0,),
    "min_tokens": (0,),
    "max_tokens": (),
    "ignore_eos": (False,),
    "stop": ([], ""),
    "stop_token_ids": ([],),
    "bad_words": ([],),
    "include_stop_str_in_output": (False,),
    "logprobs": (),
    "prompt_logprobs": (),
    "flat_logprobs": (False,),
    "logprob_token_ids": ([],),
    "logit_bias": ({},),
    "allowed_token_ids": ([],),
    "logits_processors": ([],),
    "structured_outputs": ({},),
    "guided_decoding": ({},),
    "repetition_detection": ({},),
    "thinking_token_budget": (),
    "truncate_prompt_tokens": (),
    "detokenize": (True, False),
    "skip_special_tokens": (True, False),
    "spaces_between_special_tokens": (True, False),
    "skip_reading_prefix_cache": (False,),
    "extra_args": ({},),
}
"""Other parameters of `vllm.SamplingParams`, and the values besides null with which each does nothing to a draw."""
RUNNER_TAKES: dict[Runner, tuple[str, ...]] = {
    "embedded": ("temperature", "top_p", "top_k", "seed", "repetition_penalty"),
    "v1": ("temperature", "top_p", "top_k", "seed", "repetition_penalty"),
    "v2": ("temperature", "top_p", "top_k", "seed"),
}
"""What each runner samples with."""
_OPT_OUT = "run the talker with model_runner v1 (profiles higgs-v3-high-throughput, higgs-v3-low-latency)"


def ranges(runner: Runner) -> dict[str, tuple[float, float]]:
    """The lowest and the highest of each value that the runner samples with."""
    return {name: _RANGES[name][:2] for name in RUNNER_TAKES[runner]}


def problems(values: Mapping[str, Any], runner: Runner) -> Iterator[tuple[str, str]]:
    """The names of sampling values that cannot be, each with what is wrong and the way out. None is unset."""
    for name, value in values.items():
        fault = _unknown(name)
        if value is not None:
            fault = fault or _out_of_range(name, value) or _not_taken(name, value, runner)
        if fault:
            yield name, fault


def check(choice: SamplingChoice, field: str = "sampling", runner: Runner = "embedded") -> SamplingChoice:
    """The choice itself, or an `InvalidArgumentError` that names the first value that cannot be."""
    for name, fault in problems(msgspec.structs.asdict(choice), runner):
        raise InvalidArgumentError(f"{field}.{name}", fault)
    return choice


def _unknown(name: str) -> str | None:
    known = (*_RANGES, *NEUTRAL)
    if name in known:
        return None
    near = difflib.get_close_matches(name, known, 1)
    return f"no such sampling value; {f'did you mean {near[0]}?' if near else 'there are ' + ', '.join(_RANGES)}"


def _out_of_range(name: str, value: object) -> str | None:
    if name not in _RANGES:
        return None
    low, high, closed = _RANGES[name]
    if isinstance(value, bool) or not isinstance(value, int if name in _WHOLE else int | float):
        return f"{value!r} is no {'whole number' if name in _WHOLE else 'number'}"
    if math.isfinite(value) and (low <= value if closed else low < value) and value <= high:
        return None
    bounds = f"{'at least' if closed else 'above'} {low:g} and at most {high:g}"
    return f"{value} is out of range: it must be {bounds}"


def _not_taken(name: str, value: object, runner: Runner) -> str | None:
    taken = RUNNER_TAKES[runner]
    if name in taken or any(_same(value, each) for each in NEUTRAL[name]):
        return None
    way_out = f"leave it out, or {_OPT_OUT}" if runner == "v2" and name in RUNNER_TAKES["v1"] else "leave it out"
    neutral = " or ".join(["null", *(str(each) for each in NEUTRAL[name])])
    alone = f"model runner {runner} samples with {', '.join(taken)} alone"
    return f"{value!r} is not neutral ({neutral}), and {alone}: {way_out}"


def _same(one: object, other: object) -> bool:
    """Equal, where True is not 1."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def resolve(*choices: SamplingChoice, seed: int) -> Sampling:
    """The first value that is set, in the order given, else the neutral default; `seed` if none has one."""
    values: dict[str, float] = {}
    for choice in choices:
        for name in _RANGES:
            value = getattr(choice, name)
            if value is not None:
                values.setdefault(name, value)
    values.setdefault("seed", seed)
    return msgspec.convert(values, Sampling, strict=False)
