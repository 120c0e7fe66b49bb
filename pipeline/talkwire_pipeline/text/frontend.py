"""The text front end of one checkpoint: segmenters for its limits, prompts for its segments."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from talkwire_pipeline.deploy.schema import Text
from talkwire_pipeline.errors import CheckpointError, InvalidArgumentError
from talkwire_pipeline.text.cap import cap_rows
from talkwire_pipeline.text.check import check_text
from talkwire_pipeline.text.controls import CONTROL, delivery_kind, has_voice
from talkwire_pipeline.text.normalize import Normalized, normalize_words
from talkwire_pipeline.text.normalize.spans import unchanged
from talkwire_pipeline.text.prompt import Prompt, PromptBuilder
from talkwire_pipeline.text.segmenter import Segment, Segmenter
from talkwire_pipeline.text.terminal import with_terminal

_DEFAULT_SEGMENT_CHARS = 400
# "seven" and a blank: what a digit takes once it is spelt out.
_SPELT_DIGIT_CHARS = 6
_MODES = ("none", "words")


@dataclass(frozen=True, slots=True)
class Prepared:
    """A segment, ready for the talker.

    Attributes:
        prompt: its prompt.
        max_rows: its cap.
        speakable: whether there is anything to speak; if not, it needs no talker.
        spoken_text: what the model is given to speak, delivery tokens first.
        body: the same without delivery tokens and supplied marks; its spans lead back into the segment's text.
    """

    prompt: Prompt
    max_rows: int
    speakable: bool
    spoken_text: str
    body: Normalized


class TextFrontEnd:
    """Text to prompts, as the checkpoint in `checkpoint_folder` and the deploy file's `settings` want it.

    `max_model_len`, where given, bounds prompt and rows of a segment together. Raises `CheckpointError`.

    Attributes:
        max_segment_chars: characters of one segment: the deploy file's, else the checkpoint's, else 400.
        text_normalization: the same for `none` or `words`.
    """

    def __init__(self, checkpoint_folder: Path, settings: Text, max_model_len: int | None = None) -> None:
        config = _config(checkpoint_folder / "config.json")
        self._settings = settings
        self._max_model_len = max_model_len
        self._prompts = PromptBuilder(checkpoint_folder)
        self.max_segment_chars = int(
            settings.max_segment_chars or config.get("max_segment_chars") or _DEFAULT_SEGMENT_CHARS
        )
        self.text_normalization = str(settings.text_normalization or config.get("text_normalization") or "none")
        if self.text_normalization not in _MODES:
            raise CheckpointError(
                f"{checkpoint_folder / 'config.json'}: text_normalization is {self.text_normalization!r}; "
                f"it may be {' or '.join(_MODES)}"
            )

    def check(self, text: str, field: str = "text.text") -> None:
        """Raises `InvalidArgumentError` for characters that no text can mean."""
        check_text(text, field)

    def segmenter(self, language: str) -> Segmenter:
        """A segmenter for one utterance in `language` (BCP 47)."""
        return Segmenter(
            language,
            max_segment_chars=self.max_segment_chars,
            first_segment_chars=self._settings.first_segment_chars,
            controls=self._prompts.controls,
            digit_chars=_SPELT_DIGIT_CHARS if self.text_normalization == "words" else 1,
        )

    def prepare(
        self, segment: Segment, reference_text: str | None = None, reference_frames: int = 0, language: str = "en"
    ) -> Prepared:
        """The prompt and the cap of a segment, spoken like a reference of `reference_frames` saying `reference_text`.

        Raises `InvalidArgumentError` where `max_model_len` leaves no room to speak it.
        """
        body = self.normalize(_without_delivery(segment.text), language)
        spoken = "".join(segment.delivery) + with_terminal(body.text, "," if segment.continues else ".")
        said = self.normalize(reference_text, language).text if reference_text else None
        prompt = self._prompts.build(spoken, said, reference_frames)
        speakable = segment.speakable and has_voice(body.text)
        return Prepared(prompt, self._max_rows(spoken, prompt) if speakable else 0, speakable, spoken, body)

    def normalize(self, text: str, language: str = "en") -> Normalized:
        """The text as the model gets it: its words spelt out where the checkpoint asks for that."""
        return normalize_words(text, language) if self.text_normalization == "words" else unchanged(text)

    def _max_rows(self, spoken: str, prompt: Prompt) -> int:
        rows = cap_rows(spoken, self._settings.cap)
        if self._max_model_len is None:
            return rows
        room = self._max_model_len - prompt.positions
        if room < rows // 2:
            raise InvalidArgumentError(
                "text",
                f"a segment of {len(spoken)} characters takes {prompt.positions} positions of prompt and up to {rows} "
                f"rows, and the model holds {self._max_model_len}; use a shorter reference, or lower max_segment_chars",
            )
        return min(rows, room)


def _without_delivery(text: str) -> str:
    """The text with blanks in place of delivery tokens, so that positions stay."""
    return CONTROL.sub(lambda found: " " * len(found[0]) if delivery_kind(found[0]) else found[0], text)


def _config(path: Path) -> dict[str, Any]:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error
    if not isinstance(config, dict):
        raise CheckpointError(f"{path} holds no JSON object")
    return config
