"""Prompts: a checkpoint's tokenizer and its special ids."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from talkwire_pipeline.errors import CheckpointError
from talkwire_pipeline.text.cap import DELAY_ROWS
from talkwire_pipeline.text.controls import CONTROL, ControlTokens

_SPECIALS = ("<|tts|>", "<|ref_text|>", "<|ref_audio|>", "<|text|>", "<|audio|>")


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the talker is given.

    Attributes:
        ids: [n] int32, the tokenizer's ids, without placeholders.
        reference_at: the reference's rows go before the id at this index; 0: there is no reference.
        reference_rows: how many rows that are.
    """

    ids: npt.NDArray[np.int32]
    reference_at: int = 0
    reference_rows: int = 0

    @property
    def positions(self) -> int:
        """Positions that the prompt takes, reference included."""
        return len(self.ids) + self.reference_rows


class PromptBuilder:
    """Makes prompts with the tokenizer of the checkpoint in `folder`.

    Text is encoded by a copy of the tokenizer that has no added tokens, so that nothing written in a text becomes
    one of the model's own. Raises `CheckpointError` where the file or a special token is missing.

    Attributes:
        controls: the control tokens that a text may hold.
    """

    def __init__(self, folder: Path) -> None:
        tokenizer = _load(folder / "tokenizer.json")
        self._ids = {token.content: index for index, token in tokenizer.get_added_tokens_decoder().items()}
        if missing := [special for special in _SPECIALS if special not in self._ids]:
            raise CheckpointError(f"{folder / 'tokenizer.json'}: no added token {', '.join(missing)}")
        self.controls = ControlTokens(self._ids)
        self._plain = Tokenizer(tokenizer.model)
        for part in ("normalizer", "pre_tokenizer"):
            if (value := getattr(tokenizer, part)) is not None:
                setattr(self._plain, part, value)

    def build(self, text: str, reference_text: str | None = None, reference_frames: int = 0) -> Prompt:
        """The prompt of `text`, spoken like a reference of `reference_frames` that says `reference_text` (if known)."""
        special = self._ids
        tail = [special["<|text|>"], *self.encode(text), special["<|audio|>"]]
        if not reference_frames:
            return Prompt(np.array([special["<|tts|>"], *tail], dtype=np.int32))
        transcript = [special["<|ref_text|>"], *self.encode(reference_text)] if reference_text else []
        head = [special["<|tts|>"], *transcript, special["<|ref_audio|>"]]
        return Prompt(np.array(head + tail, dtype=np.int32), len(head), reference_frames + DELAY_ROWS)

    def encode(self, text: str) -> list[int]:
        """Ids of a text; known control tokens become theirs, everything else is plain text."""
        ids: list[int] = []
        start = 0
        for found in CONTROL.finditer(text):
            if found[0] in self.controls.known:
                ids += self._encode_plain(text[start : found.start()])
                ids.append(self._ids[found[0]])
                start = found.end()
        return ids + self._encode_plain(text[start:])

    def _encode_plain(self, text: str) -> list[int]:
        ids: list[int] = self._plain.encode(text, add_special_tokens=False).ids if text else []
        return ids


def _load(path: Path) -> Tokenizer:
    if not path.is_file():
        raise CheckpointError(f"{path} is not there: a checkpoint needs its tokenizer")
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises bare Exceptions
        raise CheckpointError(f"{path} cannot be read as a tokenizer: {error}") from error
