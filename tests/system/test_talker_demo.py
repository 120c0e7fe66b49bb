"""The demo voice in the talker alone, without processes: it ends by itself, and nobody's rows feel the neighbours."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch

from support.talker import Talker
from talkwire_pipeline.checkpoint import read_checkpoint, resolve_checkpoint
from talkwire_pipeline.sampling import Sampling
from talkwire_pipeline.talker.embedded import EmbeddedRunner
from talkwire_pipeline.talker.ids import IdSpace
from talkwire_pipeline.talker.linear import can_pack
from talkwire_pipeline.talker.state import TalkerState
from talkwire_pipeline.text.prompt import PromptBuilder
from talkwire_pipeline.weights import load_talker

CPU = torch.device("cpu")
TEXTS = (
    "The old mill stands by the river.",
    "Hello there.",
    "She opened the window and let the cold morning air into the room.",
    "Never mind, it will be fine tomorrow.",
    "Twelve boats left the harbor.",
    "Yes.",
    "He asked for a map, a lamp and a loaf of bread.",
    "Where did you put the keys?",
)
MAX_ROWS = 300


@cache
def prompts() -> tuple[list[int], ...]:
    builder = PromptBuilder(resolve_checkpoint("demo"))
    return tuple(builder.build(text, None, 0).ids.tolist() for text in TEXTS)


def make_talker() -> Talker:
    checkpoint = read_checkpoint(resolve_checkpoint("demo"))
    ids = IdSpace(len(TEXTS) + 1, checkpoint.talker.vocabulary, bank_rows=1)
    state = TalkerState(ids, 512, CPU)
    runner = EmbeddedRunner(
        checkpoint.talker,
        load_talker(checkpoint, CPU),
        state,
        ids,
        audio_token_id=prompts()[0][-1],
        max_model_len=512,
        max_num_batched_tokens=32,
        device=CPU,
    )
    return Talker(state, runner)


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
