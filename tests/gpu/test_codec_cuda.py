"""The codec's decoder on a GPU: what it gives on a CPU, and captured calls what plain ones give."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch

from talkwire_pipeline.checkpoint import read_checkpoint, resolve_checkpoint
from talkwire_pipeline.codec.decoder import CodecDecoder, Samples
from talkwire_pipeline.codec.loop import CodecLoop
from talkwire_pipeline.geometry import CODEBOOKS, PRESETS
from talkwire_pipeline.messages import Codes
from talkwire_pipeline.weights import load_codec

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]

CALLS = [(1, 4, 0, 4), (1, 45, 10, 35), (4, 21, 10, 11), (8, 14, 0, 4), (4, 45, 10, 35)]
"""Windows, frames, first wanted, end of wanted."""


@cache
def decoder(device: str, graphs: bool = False) -> CodecDecoder:
    checkpoint = read_checkpoint(resolve_checkpoint("demo"))
    place = torch.device(device)
    return CodecDecoder(load_codec(checkpoint, place), checkpoint.codec, place, graphs=graphs)


def windows(seed: int, batch: int, frames: int) -> Codes:
    return np.random.default_rng(seed).integers(0, 1024, (batch, frames, CODEBOOKS)).astype(np.int16)


def decoded(by: CodecDecoder, seed: int) -> list[Samples]:
    return [by.decode(windows(seed + batch, batch, frames), *wanted) for batch, frames, *wanted in CALLS]


def test_it_gives_what_the_cpu_gives() -> None:
    for ours, theirs in zip(decoded(decoder("cuda"), 1), decoded(decoder("cpu"), 1), strict=True):
        assert np.abs(ours - theirs).max() < 1e-3 * max(1.0, np.abs(theirs).max())


def test_captured_calls_in_any_order_give_what_plain_ones_give() -> None:
    captured, plain = decoder("cuda", graphs=True), decoder("cuda")
    for batch, frames, *wanted in CALLS:
        captured.capture(batch, frames, *wanted)
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(len(CALLS))
        want = decoded(plain, seed)
        for number in order:
            batch, frames, *wanted = CALLS[number]
            got = captured.decode(windows(seed + batch, batch, frames), *wanted)
            assert np.abs(got - want[number]).max() < 1e-4


def test_a_warm_up_captures_the_calls_of_a_geometry() -> None:
    fresh = CodecDecoder(
        load_codec(read_checkpoint(resolve_checkpoint("demo")), torch.device("cuda")),
        read_checkpoint(resolve_checkpoint("demo")).codec,
        torch.device("cuda"),
        graphs=True,
    )
    CodecLoop(fresh, lambda message: None, max_batch_frames=64).warm_up(PRESETS["exact"])
    assert fresh._captured
