"""Control tokens in a text: `<|emotion:joy|>`, `<|prosody:pause|>`. Pure.

Delivery tokens (emotion, style, and prosody's speed, pitch, expressive) say how everything after them is spoken:
they lead a segment and hold for all later ones. Positional tokens (pauses, sounds) act where they stand.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from talkwire_pipeline.errors import InvalidArgumentError

CONTROL = re.compile(r"<\|[^<>|\s](?:[^<>|\n]{0,62}[^<>|\s])?\|>")
"""Anything written like a control token, known or not."""
MAX_CONTROL_CHARS = 68
"""Length of the longest."""
_PARTIAL = re.compile(r"<(?:\|(?:[^<>|\n]{0,64}\|?)?)?")
_KNOWN = re.compile(r"<\|(emotion|style|prosody|sfx):(\w+)\|>")
_VOICE = re.compile(r"[^\W_]")
_DELIVERY_PROSODY = ("speed", "pitch", "expressive")


def is_partial(text: str) -> bool:
    """Whether more characters could make a control token of the whole `text`."""
    return _PARTIAL.fullmatch(text) is not None


def delivery_kind(token: str) -> str | None:
    """What a delivery token sets (`emotion`, `style`, `speed`, `pitch`, `expressive`); None: it is none."""
    found = _KNOWN.fullmatch(token)
    if found is None or found[1] == "sfx":
        return None
    if found[1] != "prosody":
        return found[1]
    kind = found[2].split("_", 1)[0]
    return kind if kind in _DELIVERY_PROSODY else None


def has_voice(text: str) -> bool:
    """Whether there is anything to speak: a letter, a digit or a sound token."""
    if "<|" in text:
        if "<|sfx:" in text:
            return True
        text = CONTROL.sub("", text)
    return _VOICE.search(text) is not None


class ControlTokens:
    """The control tokens of a tokenizer.

    Attributes:
        known: those that a text may hold.
        refused: the tokenizer's other added tokens, which are the model's own.
    """

    def __init__(self, added_tokens: Iterable[str]) -> None:
        added = frozenset(added_tokens)
        self.known = frozenset(token for token in added if _KNOWN.fullmatch(token))
        self.refused = added - self.known

    def check(self, token: str) -> None:
        """Raises `InvalidArgumentError` where a text may not hold `token`, naming the nearest that it may."""
        if token in self.known:
            return
        if token in self.refused:
            raise InvalidArgumentError("text", f"{token} belongs to the model and cannot be part of a text; remove it")
        near = difflib.get_close_matches(token.lower(), sorted(self.known), n=1, cutoff=0.0)
        hint = f"; the nearest that it knows is {near[0]}" if near else "; this model has none"
        raise InvalidArgumentError("text", f"{token} is no control token of this model{hint}")

    def check_all(self, text: str) -> None:
        """The same for every control token in a whole text."""
        for found in CONTROL.finditer(text):
            self.check(found[0])
