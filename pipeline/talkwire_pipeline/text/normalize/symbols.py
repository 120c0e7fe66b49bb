"""Single characters: folded to what the model reads, said as a word, or dropped."""

from __future__ import annotations

import unicodedata

PUNCTUATION = frozenset(".,!?;:'\"-()")
"""Marks that the model reads."""
_LETTERS = str.maketrans(
    {
        "ß": "ss",
        "ẞ": "SS",
        "æ": "ae",
        "Æ": "AE",
        "œ": "oe",
        "Œ": "OE",
        "ø": "o",
        "Ø": "O",
        "ł": "l",
        "Ł": "L",
        "đ": "d",
        "Đ": "D",
        "ð": "d",
        "Ð": "D",
        "þ": "th",
        "Þ": "Th",
        "ı": "i",
        "ħ": "h",
        "Ħ": "H",
    }
)
WORDS = {
    "&": "and",
    "@": "at",
    "+": "plus",
    "=": "equals",
    "×": "times",
    "÷": "divided by",
    "%": "percent",
    "°": "degrees",
    "$": "dollars",
    "€": "euros",
    "£": "pounds",
    "¥": "yen",
    "§": "section",
    "№": "number",
    "/": "slash",
    "²": "squared",
    "³": "cubed",
    "½": "one half",
    "¼": "one quarter",
    "¾": "three quarters",
    "⅓": "one third",
    "⅔": "two thirds",
}
"""Said by name wherever no rule knows better."""
MARKS = {"…": "...", "[": "(", "]": ")", "{": "(", "}": ")", "«": '"', "»": '"', "—": ",", "–": ",", "•": "", "`": ""}
"""Read like another mark; blanks are the engine's."""
_QUOTES = {ord(character): "'" for character in "‘’ʼ′"} | {ord(character): '"' for character in "“”„″"}


def canonical(text: str) -> str:
    """The same text, character for character: plain digits, quotes, minus and blanks; wide forms made narrow."""
    return text if text.isascii() else "".join(map(_canonical, text.translate(_QUOTES)))


def _canonical(character: str) -> str:
    if character.isascii() or character in WORDS or character in MARKS:
        return character
    if character.isdecimal():
        return str(unicodedata.decimal(character))
    if character == "\u2212":
        return "-"
    narrow = unicodedata.normalize("NFKC", character).replace("。", ".").replace("、", ",")
    return narrow if len(narrow) == 1 and narrow.isascii() else character


def fold(word: str) -> str:
    """Letters without accents; those that have no plain form are dropped."""
    if word.isascii():
        return word
    plain = unicodedata.normalize("NFKD", word.translate(_LETTERS))
    return "".join(
        character for character in plain if character.isascii() and (character.isalpha() or character == "'")
    )
