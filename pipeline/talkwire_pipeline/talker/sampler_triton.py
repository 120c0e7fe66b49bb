"""The sampler in two kernels: for CUDA, where the launches of the torch version take longer than its work.

The first draws: one program a code, which reads its row's parameters and history by the slot and writes the code where
it belongs. The second makes the next ids, for which a row's eight codes come together. `talker.sampler.Sampler` and
`talker.draw.Draw` say what is right. Both give the same codes, but where two candidates are closer than the last bit of
an exponential or a logarithm, which libraries round differently.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from talkwire_pipeline.delay import BOC, CODEBOOK_SIZE, EOC
from talkwire_pipeline.geometry import CODEBOOKS
from talkwire_pipeline.talker import parameters, sampler
from talkwire_pipeline.talker.draw import TIE_BITS, UNIT
from talkwire_pipeline.talker.ids import STOP
from talkwire_pipeline.talker.rng import FIRST, GAMMA, SECOND, signed
from talkwire_pipeline.talker.sampler import Memory, Sampler, Work

_WARPS = 8
# A kernel may read globals only if they are constants of the compiler.
_PADDED = tl.constexpr(triton.next_power_of_2(CODEBOOK_SIZE))
_CODES, _BOOKS = tl.constexpr(CODEBOOK_SIZE), tl.constexpr(CODEBOOKS)
_BOC, _EOC, _STOP = tl.constexpr(BOC), tl.constexpr(EOC), tl.constexpr(STOP)
_TIE, _TIES, _UNIT = tl.constexpr(TIE_BITS), tl.constexpr((1 << TIE_BITS) - 1), tl.constexpr(float(UNIT))
_GAMMA, _FIRST, _SECOND = (tl.constexpr(signed(word)) for word in (GAMMA, FIRST, SECOND))
_WIDTH, _LENGTH, _EPOCH = (tl.constexpr(n) for n in (parameters.WIDTH, parameters.LENGTH, parameters.EPOCH))
_TOP_K, _TOP_P = tl.constexpr(parameters.TOP_K), tl.constexpr(parameters.TOP_P)
_TEMPERATURE, _NOISE = tl.constexpr(parameters.TEMPERATURE), tl.constexpr(parameters.NOISE)
_PENALTY, _KEYS = tl.constexpr(parameters.PENALTY), tl.constexpr(parameters.KEYS)
_COLUMNS, _AT_EPOCH = tl.constexpr(sampler.COLUMNS), tl.constexpr(sampler.EPOCH)
_AT_SLOT, _AT_POSITION, _AT_CODES = (tl.constexpr(n) for n in (sampler.SLOT, sampler.POSITION, sampler.CODES))


@triton.jit
def _draw(logits, marked, step, values, floats, book):  # type: ignore[no-untyped-def]
    """One code: `logits` and `marked` point at its 1026 values, `values` and `floats` at its slot's parameters."""
    rank = tl.arange(0, _PADDED)
    real = rank < _CODES
    x = tl.load(logits + rank, mask=real, other=float("-inf")).to(tl.float32)
    x = tl.where((rank == _BOC) | ((rank == _EOC) & (book > 0)), float("-inf"), x)
    penalty = tl.load(floats + _PENALTY).to(tl.float32)
    seen = tl.load(marked + rank, mask=real, other=0) != 0
    x = tl.where(seen, tl.where(x > 0, tl.div_rn(x, tl.zeros_like(x) + penalty), x * penalty), x)
    # Best first, of equal ones the lowest code: logits as integers that compare as the floats do, the code below them.
    bits = x.to(tl.int32, bitcast=True)
    order = ((bits >> 31) & 0x7FFFFFFF) ^ bits
    key = (order.to(tl.int64) << _TIE) + (-rank + (_CODES - 1)).to(tl.int64)
    key = tl.sort(tl.where(real, key, -(1 << 62)), descending=True)
    code = -(key & _TIES) + (_CODES - 1)
    order = (key >> _TIE).to(tl.int32)
    best = (order ^ ((order >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)
    scaled = best.to(tl.float64) / tl.load(floats + _TEMPERATURE)
    kept = real & (rank.to(tl.int64) < tl.load(values + _TOP_K))
    first = tl.max(tl.where(rank == 0, scaled, float("-inf")), 0)
    weights = (tl.exp(tl.where(kept, scaled - first, float("-inf"))) * _UNIT).to(tl.int64)
    total = tl.sum(weights, 0).to(tl.float64)
    kept = kept & ((tl.cumsum(weights, 0) - weights).to(tl.float64) < total * tl.load(floats + _TOP_P))
    # Gumbel noise by (seed, step, codebook, code): see `talker.rng`.
    word = (step * _CODES + code) * _GAMMA + tl.load(values + _KEYS + book)
    word = (word ^ ((word >> 30) & ((1 << 34) - 1))) * _FIRST
    word = (word ^ ((word >> 27) & ((1 << 37) - 1))) * _SECOND
    uniform = (((word >> 12) & ((1 << 52) - 1)).to(tl.float64) + 0.5) * 2.220446049250313e-16
    score = scaled - tl.log(-tl.log(uniform)) * tl.load(floats + _NOISE)
    choice = tl.argmax(tl.where(kept, score, float("-inf")), 0, tie_break_left=True)
    return tl.sum(tl.where(rank == choice, code, 0), 0)


@triton.jit  # type: ignore[untyped-decorator]
def _rows(  # type: ignore[no-untyped-def]
    logits, slots, positions, values, floats, history, seen, entry, SLOTS: tl.constexpr, STRIDE: tl.constexpr
):
    """Draws code `pid % 8` of row `pid // 8` and keeps it; see `Sampler` for the arguments."""
    pid = tl.program_id(0)
    row, book = (pid // _BOOKS).to(tl.int64), pid % _BOOKS
    slot = tl.minimum(tl.maximum(tl.load(slots + row), 0), SLOTS - 1)
    position = tl.minimum(tl.maximum(tl.load(positions + row), 0), STRIDE - 2)
    values += slot * _WIDTH
    floats += slot * _WIDTH
    seen += (slot * _BOOKS + book) * _CODES
    at = history + (slot * STRIDE + position) * _BOOKS
    step = position + 1 - tl.load(values + _LENGTH)
    wanted = step >= 0
    drawn = _draw(logits + (row * _BOOKS + book) * _CODES, seen, step, values, floats, book)
    drawn = tl.where(step < book, _BOC, drawn)
    drawn = tl.where(tl.load(at + tl.maximum(book - 1, 0)) == _EOC, _EOC, drawn)
    kept = tl.load(at + _BOOKS + book).to(tl.int64)
    drawn = tl.where(kept >= 0, kept, drawn)
    tl.store(at + _BOOKS + book, drawn.to(tl.int16), mask=wanted)
    tl.store(seen + drawn, 1, mask=wanted)
    entry += row * _COLUMNS
    tl.store(entry + _AT_CODES + book, drawn.to(tl.int32))
    if book == 0:
        tl.store(entry + _AT_SLOT, tl.where(wanted, slot, 0).to(tl.int32))
        tl.store(entry + _AT_EPOCH, tl.load(values + _EPOCH).to(tl.int32))
        tl.store(entry + _AT_POSITION, position.to(tl.int32))


@triton.jit  # type: ignore[untyped-decorator]
def _next_ids(entry, factors, ids, SLOTS: tl.constexpr, PRINTS: tl.constexpr):  # type: ignore[no-untyped-def]
    """The id of row `pid`; a row of slot 0 is one of which nothing is wanted."""
    row = tl.program_id(0).to(tl.int64)
    book = tl.arange(0, _BOOKS)
    codes = tl.load(entry + row * _COLUMNS + _AT_CODES + book).to(tl.int64)
    hashed = (tl.sum(codes * tl.load(factors + book), 0) >> 33) % PRINTS
    hashed = tl.where(hashed < 0, hashed + PRINTS, hashed)
    owner = tl.load(entry + row * _COLUMNS + _AT_SLOT).to(tl.int64)
    last = tl.sum(tl.where(book == _BOOKS - 2, codes, 0), 0) == _EOC
    following = tl.where(last, _STOP, hashed * SLOTS + owner)
    tl.store(ids + row, tl.where(owner > 0, following, SLOTS))


class FusedSampler(Sampler):
    """`Sampler` with two launches. What need not be done it does as well, in the same time."""

    def __init__(self, memory: Memory) -> None:
        super().__init__(memory)
        self._floats = memory.parameters.table.view(torch.float64)
        self._marks = memory.seen.view(torch.uint8)

    def __call__(
        self, logits: torch.Tensor, slots: torch.Tensor, positions: torch.Tensor, work: Work
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """See `Sampler`; codes of rows of which nothing is wanted may differ from it, and are kept nowhere."""
        memory, rows = self._memory, len(logits)
        entry = torch.empty(rows, sampler.COLUMNS, dtype=torch.int32, device=logits.device)
        ids = torch.empty(rows, dtype=torch.int64, device=logits.device)
        if not rows:
            return entry, ids
        table, sizes = memory.parameters.table, memory.ids
        _rows[(rows * CODEBOOKS,)](
            logits.contiguous(),
            slots.long(),
            positions.long(),
            table,
            self._floats,
            memory.codes,
            self._marks,
            entry,
            SLOTS=sizes.slots,
            STRIDE=memory.stride,
            num_warps=_WARPS,
        )
        _next_ids[(rows,)](entry, memory.factors, ids, SLOTS=sizes.slots, PRINTS=sizes.step_fingerprints, num_warps=1)
        return entry, ids
