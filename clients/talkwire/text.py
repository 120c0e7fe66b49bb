"""Joins pieces of text that were cut anywhere: inside a UTF-8 sequence, or between two surrogates. Pure."""

from __future__ import annotations

import codecs

from talkwire.errors import FieldViolation, InvalidArgument


class TextDecoder:
    """Whole characters out of `bytes` (UTF-8) or `str` pieces; an unfinished character waits for the next piece.

    A `str` may end in the first half of a surrogate pair, as streams of JSON escapes do. An unfinished character
    can only be finished by a piece of its own kind.
    """

    def __init__(self) -> None:
        self._utf8 = codecs.getincrementaldecoder("utf-8")()
        self._utf16 = codecs.getincrementaldecoder("utf-16-le")()

    def feed(self, piece: str | bytes) -> str:
        """The characters that are whole now. Raises `InvalidArgument` where they never can be."""
        try:
            if isinstance(piece, bytes):
                self._utf16.decode(b"", True)
                return self._utf8.decode(piece)
            self._utf8.decode(b"", True)
            return self._utf16.decode(piece.encode("utf-16-le", "surrogatepass"))
        except UnicodeDecodeError as error:
            raise _invalid(error) from None

    def end(self) -> None:
        """Raises `InvalidArgument` if the text so far ends inside a character."""
        try:
            self._utf8.decode(b"", True)
            self._utf16.decode(b"", True)
        except UnicodeDecodeError as error:
            raise _invalid(error) from None


def _invalid(error: UnicodeDecodeError) -> InvalidArgument:
    what = "not UTF-8" if error.encoding.startswith("utf-8") else "a surrogate without its other half"
    fault = f"{what} ({error.reason}); replace what cannot be decoded before sending it"
    return InvalidArgument(f"text: {fault}", violations=(FieldViolation("text", fault),))
