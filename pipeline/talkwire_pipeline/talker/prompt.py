"""How a prompt of the tokenizer's ids becomes one of engine ids. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from talkwire_pipeline.messages import Open
from talkwire_pipeline.talker.ids import IdSpace


def check_open(message: Open, ids: IdSpace, audio_token: int) -> None:
    """Raises a `ValueError` that names what is wrong with a command that no server of ours sends."""
    prompt, at = message.prompt, message.reference_at
    if not len(prompt) or prompt[-1] != audio_token:
        raise ValueError(f"prompt: it does not end with <|audio|>, id {audio_token}")
    if prompt.min() < 0 or prompt.max() >= ids.text_vocabulary:
        raise ValueError(f"prompt: it has ids outside of 0 to {ids.text_vocabulary - 1}")
    if not 0 <= at < len(prompt):
        raise ValueError(f"reference_at: {at} is not in 0 to {len(prompt) - 1}")
    if message.max_rows < 1:
        raise ValueError(f"max_rows: {message.max_rows} is below 1")


def engine_prompt(message: Open, ids: IdSpace, inserted: Sequence[int], step_id: int) -> list[int]:
    """The prompt in engine ids: text ids shifted, `inserted` at `reference_at`, `step_id` in place of the last id."""
    text = (message.prompt.astype(np.int64) + ids.steps).tolist()
    text[-1] = step_id
    at = message.reference_at
    return [*text[:at], *inserted, *text[at:]]
