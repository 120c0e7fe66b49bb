"""The demo voice in the talker alone, without processes: it ends by itself, and nobody's rows feel the neighbours."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from support.demo_talker import TEXTS, checkpoint, embedded, prompts
from support.talker import Talker
from talkwire_pipeline.sampling import Sampling
from talkwire_pipeline.talker.ids import IdSpace
from talkwire_pipeline.talker.linear import can_pack
from talkwire_pipeline.talker.state import TalkerState

CPU = torch.device("cpu")
MAX_ROWS = 300


def make_talker() -> Talker:
    ids = IdSpace(len(TEXTS) + 1, checkpoint().talker.vocabulary, bank_rows=1)
    return embedded(TalkerState(ids, 512, CPU), max_model_len=512, chunk=32)


@pytest.fixture(scope="module")
def together() -> dict[str, list[Any]]:
    """Rows of all texts, spoken at once, each with a seed of its own."""
    talker = make_talker()
    slots = [
        talker.open(prompt[:-1], MAX_ROWS, Sampling(temperature=0.7, top_k=50, top_p=0.95, seed=seed))
        for seed, prompt in enumerate(prompts())
    ]
    talker.finish()
    assert talker.ended == set(slots)
    return {text: talker.rows[slot] for text, slot in zip(TEXTS, slots, strict=True)}


def test_longer_texts_take_longer(together: dict[str, list[Any]]) -> None:
    seconds = {text: len(rows) / 25 for text, rows in together.items()}
    assert seconds["Yes."] < seconds["Where did you put the keys?"] < seconds[TEXTS[2]]
    assert 2.5 < seconds[TEXTS[2]] < 6


@pytest.mark.skipif(not can_pack(CPU), reason="this machine does not multiply by fp16-stored weights")
@pytest.mark.parametrize("index", [0, 3, 5])
def test_rows_alone_are_those_beside_seven_others(together: dict[str, list[Any]], index: int) -> None:
    talker = make_talker()
    slot = talker.open(prompts()[index][:-1], MAX_ROWS, Sampling(temperature=0.7, top_k=50, top_p=0.95, seed=index))
    talker.finish()
    assert talker.rows[slot] == together[TEXTS[index]]
