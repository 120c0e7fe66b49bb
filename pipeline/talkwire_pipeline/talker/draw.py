"""How codes are drawn from logits: delay mask, repetition penalty, temperature, top_k, top_p, Gumbel-max.

The result for a row is bitwise the same whoever shares the batch. That is why ties are broken by a total order of
(logit, code), why a row's candidates have one of two fixed numbers, and why probabilities are added as integers,
whose sum does not depend on the order in which a kernel adds.
"""

from __future__ import annotations

import torch

from talkwire_pipeline.delay import BOC, CODEBOOK_SIZE, EOC
from talkwire_pipeline.geometry import CODEBOOKS
from talkwire_pipeline.talker.parameters import DrawValues
from talkwire_pipeline.talker.rng import gumbel

NARROW = 64
"""Candidates of each codebook while no live generation has a top_k above it (or off)."""
TIE_BITS = 11  # enough to tell CODEBOOK_SIZE codes apart
UNIT = 1 << 40  # integer weight of the likeliest code


class Draw:
    """Draws codes; holds nothing but constants on `device`."""

    def __init__(self, device: torch.device) -> None:
        self._mask = torch.zeros(CODEBOOKS, CODEBOOK_SIZE, device=device)
        self._mask[:, BOC] = -torch.inf
        self._mask[1:, EOC] = -torch.inf
        self._rank = torch.arange(CODEBOOK_SIZE, device=device)
        self._tie = self._rank.flip(0).contiguous()  # of equal logits the lowest code comes first

    def __call__(
        self,
        logits: torch.Tensor,
        steps: torch.Tensor,
        values: DrawValues,
        seen: torch.Tensor | None,
        wide: bool,
        nucleus: bool,
    ) -> torch.Tensor:
        """Codes [n, 8] int64 for `logits` [n, 8, 1026] and `steps` [n] int64, 0 for the first row of a generation.

        `seen` [n, 8, 1026] bool are the codes to penalise (None: no row has a penalty). `wide`: some row has more
        than `NARROW` candidates. `nucleus`: some row has a top_p.
        """
        allowed = logits.float() + self._mask
        if seen is not None:
            allowed = _penalised(allowed, seen, values.penalty.float())
        codes, best = self._candidates(allowed, CODEBOOK_SIZE if wide else NARROW)
        scaled = best.double().div_(values.temperature)
        dropped = self._rank[: codes.shape[-1]] >= values.top_k
        if nucleus:
            dropped = dropped | _beyond(scaled.masked_fill(dropped, -torch.inf), values.top_p)
        noise = gumbel(values.keys, steps.view(-1, 1, 1), codes).mul_(values.noise)
        choice = scaled.add_(noise).masked_fill_(dropped, -torch.inf).argmax(-1, keepdim=True)
        return codes.gather(-1, choice).squeeze(-1)

    def _candidates(self, allowed: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The best `count` codes [n, 8, count], best first, and their logits."""
        bits = allowed.view(torch.int32)
        order = (bits >> 31).bitwise_and_(0x7FFFFFFF).bitwise_xor_(bits)  # compares as the floats do
        codes = torch.add(self._tie, order, alpha=1 << TIE_BITS).topk(count).indices
        return codes, allowed.gather(-1, codes)


def _penalised(allowed: torch.Tensor, seen: torch.Tensor, penalty: torch.Tensor) -> torch.Tensor:
    """Logits of seen codes divided by the penalty where positive, multiplied where negative."""
    return torch.where(seen, torch.where(allowed > 0, allowed / penalty, allowed * penalty), allowed)


def _beyond(scaled: torch.Tensor, top_p: torch.Tensor) -> torch.Tensor:
    """Which candidates (best first) come after the one whose probability makes the sum reach `top_p`."""
    weights = (scaled - scaled[..., :1]).exp_().mul_(UNIT).long()
    sums = weights.cumsum(-1)
    return sums - weights >= sums[..., -1:] * top_p
