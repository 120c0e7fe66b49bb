"""The codec with the demo voice on one thread: start-up, then time by window and batch.

Run by `make bench`, or as `python -m benchmarks.codec [checkpoint]`.
"""

from __future__ import annotations

import statistics
import sys
import time

import numpy as np
import torch

from benchmarks.spread import spread
from talkwire.render import table
from talkwire_pipeline.checkpoint import read_checkpoint, resolve_checkpoint
from talkwire_pipeline.codec.decoder import CodecDecoder
from talkwire_pipeline.codec.loop import CodecLoop
from talkwire_pipeline.codec.windows import Shape
from talkwire_pipeline.geometry import CODEBOOKS, PRESETS, SAMPLE_RATE_HZ, SAMPLES_PER_FRAME
from talkwire_pipeline.weights import load_codec

CALLS = 7
WINDOWS = [
    (1, Shape(0, 4, 4)),
    (4, Shape(0, 4, 4)),
    (1, Shape(0, 4, 10)),
    *((batch, Shape(10, size, 10)) for size in (2, 4, 9, 18, 25) for batch in (1, 2, 4)),
]


def decoder_of(name: str) -> CodecDecoder:
    checkpoint = read_checkpoint(resolve_checkpoint(name))
    return CodecDecoder(load_codec(checkpoint, torch.device("cpu")), checkpoint.codec)


def times_ms(decoder: CodecDecoder, batch: int, shape: Shape) -> list[float]:
    """Of the first call of this shape, which makes its kernels, and of those after it."""
    codes = np.random.default_rng(0).integers(0, 1024, (batch, shape.total, CODEBOOKS)).astype(np.int16)
    took = []
    for _ in range(1 + CALLS):
        begun_s = time.perf_counter()
        decoder.decode(codes, shape.left, shape.left + shape.size)
        took.append((time.perf_counter() - begun_s) * 1e3)
    return took


def row(decoder: CodecDecoder, batch: int, shape: Shape) -> tuple[str, ...]:
    first_ms, *others_ms = times_ms(decoder, batch, shape)
    frame_ms = statistics.median(others_ms) / batch / shape.size
    rtf = frame_ms * SAMPLE_RATE_HZ / SAMPLES_PER_FRAME / 1e3
    figures = (spread(others_ms), f"{frame_ms:.2f}", f"{rtf:.3f}", f"{first_ms:.0f}")
    return (" + ".join(map(str, shape)), str(batch), *figures)


def main(name: str) -> None:
    torch.set_num_threads(1)
    begun_s = time.perf_counter()
    decoder = decoder_of(name)
    loaded_s = time.perf_counter()
    CodecLoop(decoder, lambda message: None).warm_up(PRESETS["exact-fast"])
    print(f"codec: load {loaded_s - begun_s:.2f} s, warm-up {time.perf_counter() - loaded_s:.2f} s")
    header = ("left + frames + right", "batch", "ms", "ms per frame", "RTF", "first call ms")
    print(table(header, [row(decoder, batch, shape) for batch, shape in WINDOWS]))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "demo")
