"""A draw as one kernel: for CUDA, where the launches of the torch version take longer than its work.

The torch version (`talker.draw.Draw`) says what is right. Both give the same codes, but where two candidates are closer
than the last bit of an exponential or a logarithm, which libraries round differently.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from talkwire_pipeline.delay import CODEBOOK_SIZE
from talkwire_pipeline.geometry import CODEBOOKS
from talkwire_pipeline.talker.draw import TIE_BITS, UNIT, Draw
from talkwire_pipeline.talker.parameters import DrawValues
from talkwire_pipeline.talker.rng import FIRST, GAMMA, SECOND, signed

_PADDED = triton.next_power_of_2(CODEBOOK_SIZE)
_WARPS = 8


@triton.jit  # type: ignore[untyped-decorator]
def _kernel(  # type: ignore[no-untyped-def]
    logits,
    mask,
    seen,
    steps,
    keys,
    top_k,
    temperature,
    noise,
    top_p,
    penalty,
    drawn,
    stride,
    HAS_SEEN: tl.constexpr,
    CODES: tl.constexpr,
    PADDED: tl.constexpr,
    BOOKS: tl.constexpr,
    TIE: tl.constexpr,
    WEIGHT: tl.constexpr,
    GAMMA_: tl.constexpr,
    FIRST_: tl.constexpr,
    SECOND_: tl.constexpr,
):
    """One program draws one code: row `pid // BOOKS`, codebook `pid % BOOKS`."""
    pid = tl.program_id(0)
    row, book = pid // BOOKS, pid % BOOKS
    rank = tl.arange(0, PADDED)
    real = rank < CODES
    x = tl.load(logits + pid.to(tl.int64) * CODES + rank, mask=real, other=float("-inf")).to(tl.float32)
    x += tl.load(mask + book * CODES + rank, mask=real, other=0.0)
    if HAS_SEEN:
        by = tl.load(penalty + row * stride).to(tl.float32)
        marked = tl.load(seen + pid.to(tl.int64) * CODES + rank, mask=real, other=0) != 0
        x = tl.where(marked, tl.where(x > 0, x / by, x * by), x)
    # Best first, of equal ones the lowest code: logits as integers that compare as the floats do, the code below them.
    bits = x.to(tl.int32, bitcast=True)
    order = ((bits >> 31) & 0x7FFFFFFF) ^ bits
    key = (order.to(tl.int64) << TIE) + (CODES - 1 - rank).to(tl.int64)
    key = tl.sort(tl.where(real, key, -(1 << 62)), descending=True)
    code = (CODES - 1) - (key & ((1 << TIE) - 1))
    order = (key >> TIE).to(tl.int32)
    best = (order ^ ((order >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)
    scaled = best.to(tl.float64) / tl.load(temperature + row * stride)
    kept = real & (rank.to(tl.int64) < tl.load(top_k + row * stride))
    first = tl.max(tl.where(rank == 0, scaled, float("-inf")), 0)
    weights = (tl.exp(tl.where(kept, scaled - first, float("-inf"))) * WEIGHT).to(tl.int64)
    sums = tl.cumsum(weights, 0)
    total = tl.sum(weights, 0).to(tl.float64)
    kept = kept & ((sums - weights).to(tl.float64) < total * tl.load(top_p + row * stride))
    # Gumbel noise by (seed, step, codebook, code): see `talker.rng`.
    word = (tl.load(steps + row) * CODES + code) * GAMMA_ + tl.load(keys + row * stride + book)
    word = (word ^ ((word >> 30) & ((1 << 34) - 1))) * FIRST_
    word = (word ^ ((word >> 27) & ((1 << 37) - 1))) * SECOND_
    uniform = (((word >> 12) & ((1 << 52) - 1)).to(tl.float64) + 0.5) * 2.220446049250313e-16
    score = scaled - tl.log(-tl.log(uniform)) * tl.load(noise + row * stride)
    choice = tl.argmax(tl.where(kept, score, float("-inf")), 0, tie_break_left=True)
    tl.store(drawn + pid, tl.sum(tl.where(rank == choice, code, 0), 0))


class FusedDraw(Draw):
    """`Draw` with one launch. Whether some row has many candidates or a top_p makes no difference to it."""

    def __call__(
        self,
        logits: torch.Tensor,
        steps: torch.Tensor,
        values: DrawValues,
        seen: torch.Tensor | None,
        wide: bool,
        nucleus: bool,
    ) -> torch.Tensor:
        """See `Draw`."""
        rows = len(logits)
        drawn = torch.empty(rows, CODEBOOKS, dtype=torch.int64, device=logits.device)
        if rows:
            logits = logits.contiguous()
            _kernel[(rows * CODEBOOKS,)](
                logits,
                self._mask,
                logits if seen is None else seen,
                steps,
                values.keys,
                values.top_k,
                values.temperature,
                values.noise,
                values.top_p,
                values.penalty,
                drawn,
                values.keys.stride(0),
                HAS_SEEN=seen is not None,
                CODES=CODEBOOK_SIZE,
                PADDED=_PADDED,
                BOOKS=CODEBOOKS,
                TIE=TIE_BITS,
                WEIGHT=float(UNIT),
                GAMMA_=signed(GAMMA),
                FIRST_=signed(FIRST),
                SECOND_=signed(SECOND),
                num_warps=_WARPS,
            )
        return drawn
