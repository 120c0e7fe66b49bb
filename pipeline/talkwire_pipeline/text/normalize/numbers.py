"""Numbers in words."""

from __future__ import annotations

import re
from decimal import Decimal
from functools import lru_cache

from num2words import CONVERTER_CLASSES, num2words

from talkwire_pipeline.text.normalize.symbols import fold

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_MAX_DIGITS = 15
_TENTHS = {2: ("half", "halves"), 4: ("quarter", "quarters")}
_FRACTION_PARTS = frozenset([*range(2, 11), 12, 16, 20, 32, 64, 100])
_FAILURES = (ArithmeticError, LookupError, NotImplementedError, TypeError, ValueError)


def digits(text: str) -> str:
    """Every digit of `text` by its name."""
    return " ".join(DIGITS[int(digit)] for digit in text if digit.isdecimal())


def spelling_language(language: str) -> str:
    """num2words' name for a BCP 47 tag; empty: it does not know the language."""
    tag = language.replace("-", "_")
    primary = tag.split("_")[0].lower()
    if primary in ("en", ""):
        return "en"
    return next((name for name in (tag, primary) if name in CONVERTER_CLASSES), "")


class Numbers:
    """Spells numbers in one language, as `spelling_language` names it.

    Where it is none, digits are read one by one, in English.
    """

    def __init__(self, language: str) -> None:
        self.is_english = language == "en"
        self._language = language

    def cardinal(self, number: str) -> str:
        """`"1,234"`: digits, with commas in groups of three or without. Long ones, and `"007"`, digit by digit."""
        plain = number.replace(",", "")
        if len(plain) > _MAX_DIGITS or (len(plain) > 1 and plain[0] == "0"):
            return digits(plain)
        return self._spell(plain, "cardinal")

    def number(self, number: str) -> str:
        """A cardinal, or a decimal such as `"3.14"` or `".5"`; `"-"` in front is read."""
        if number.startswith("-"):
            return "minus " + self.number(number[1:])
        whole, _, part = number.partition(".")
        if part and not self.is_english and len(number) <= _MAX_DIGITS:
            return self._spell(number.replace(",", ""), "cardinal")
        if not part:
            return self.cardinal(whole)
        return f"{self.cardinal(whole or '0')} point {digits(part)}"

    def ordinal(self, number: str) -> str:
        """`"21"`: twenty first."""
        plain = number.replace(",", "")
        return self._spell(plain, "ordinal") if len(plain) <= _MAX_DIGITS else digits(plain)

    def year(self, number: str) -> str:
        """`"1984"`: nineteen eighty four."""
        return self._spell(number, "year")

    def plural(self, words: str) -> str:
        """The plural of a number's words: `nineteen nineties`."""
        return words[:-1] + "ies" if words.endswith("y") else words + ("es" if words.endswith("x") else "s")

    def fraction(self, over: str, under: str) -> str | None:
        """`"3", "4"`: three quarters; None where nobody says it so."""
        top, bottom = int(over), int(under)
        if not 0 < top < bottom or bottom not in _FRACTION_PARTS:
            return None
        one, many = _TENTHS.get(bottom) or (self.ordinal(under), self.plural(self.ordinal(under)))
        return f"{self.cardinal(over)} {one if top == 1 else many}"

    def _spell(self, plain: str, kind: str) -> str:
        return _spell(plain, kind, self._language) or digits(plain)


@lru_cache(maxsize=1024)
def _spell(number: str, kind: str, language: str) -> str:
    """Empty: num2words cannot say it in that language, or says it in letters that have no plain form."""
    if not language:
        return ""
    try:
        words = str(num2words(Decimal(number) if "." in number else int(number), to=kind, lang=language))
    except _FAILURES:
        return ""
    folded = [fold(word) for word in re.split(r"[\s,-]+", words) if word]
    return " ".join(folded) if all(folded) else ""
