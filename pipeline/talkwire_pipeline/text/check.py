"""Which characters a text may hold. Pure."""

from __future__ import annotations

import re

from talkwire_pipeline.errors import InvalidArgumentError

# The control characters below U+0020 but white space, and halves of surrogate pairs, which are no characters at all.
_REFUSED = re.compile("[\x00-\x08\x0e-\x1f\ud800-\udfff]")


def check_text(text: str, field: str = "text.text") -> None:
    """Raises `InvalidArgumentError` for `field` where `text` holds a character that no text can mean."""
    if found := _REFUSED.search(text):
        kind = "half of a surrogate pair" if found[0] >= "\ud800" else "a control character"
        raise InvalidArgumentError(
            field, f"U+{ord(found[0]):04X} at position {found.start()} is {kind}; remove it and send the text again"
        )
