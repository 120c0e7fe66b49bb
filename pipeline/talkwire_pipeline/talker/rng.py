"""Random numbers by counter: the same (seed, step, codebook, code) gives the same number, whatever else is drawn.

Each (seed, codebook) has a SplitMix64 stream whose start is hashed on the host when a generation opens; number
`step * 1026 + code` of the stream belongs to that code. So no state is kept, and a step can be drawn again.
"""

from __future__ import annotations

import torch

from talkwire_pipeline.delay import CODEBOOK_SIZE
from talkwire_pipeline.geometry import CODEBOOKS

GAMMA = 0x9E3779B97F4A7C15
FIRST = 0xBF58476D1CE4E5B9
SECOND = 0x94D049BB133111EB
_WORD = (1 << 64) - 1


def signed(word: int) -> int:
    """The int64 with the bits of an unsigned 64-bit `word`."""
    return word - (1 << 64) if word >> 63 else word


def mixed(word: int) -> int:
    """A hash of an unsigned 64-bit word, unsigned too."""
    word = ((word ^ (word >> 30)) * FIRST) & _WORD
    word = ((word ^ (word >> 27)) * SECOND) & _WORD
    return word ^ (word >> 31)


def stream_keys(seed: int) -> list[int]:
    """Where the streams of a seed's eight codebooks start, as int64; `seed` from 0 to 2**63 - 1."""
    start = mixed(seed)
    return [signed(mixed((start + (codebook + 1) * GAMMA) & _WORD)) for codebook in range(CODEBOOKS)]


def uniform(keys: torch.Tensor, steps: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
    """Numbers in (0, 1), float64 with 52 random bits.

    `keys` [n, 8, 1], `steps` [n, 1, 1] and `codes` [n, 8, K] are int64; the result has the shape of `codes`.
    """
    # int64 products wrap around in torch on every device, so that they are those of unsigned words. A shift to
    # the right is arithmetic: the mask makes it a logical one.
    word = torch.add(steps * CODEBOOK_SIZE, codes).mul_(signed(GAMMA)).add_(keys)
    word.bitwise_xor_((word >> 30).bitwise_and_((1 << 34) - 1)).mul_(signed(FIRST))
    word.bitwise_xor_((word >> 27).bitwise_and_((1 << 37) - 1)).mul_(signed(SECOND))
    bits = (word >> 12).bitwise_and_((1 << 52) - 1)
    return bits.double().add_(0.5).mul_(2.0**-52)  # 53 significant bits: neither 0 nor 1 can come out


def gumbel(keys: torch.Tensor, steps: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
    """Standard Gumbel noise, arguments and shape as for `uniform`."""
    return uniform(keys, steps, codes).log_().neg_().log_().neg_()
