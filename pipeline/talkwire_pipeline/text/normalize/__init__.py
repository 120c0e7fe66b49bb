"""Spells out what a model that reads words only cannot read: `normalize_words`. Pure.

`engine` runs one pass over the text, `rules` is the table of what is found and what it becomes, and each kind of
thing (numbers, money, time, addresses, units, abbreviations, symbols) has a file. The rules are English; in other
languages plain numbers are spelt where num2words knows the language, and everything else is left or dropped.
"""

from talkwire_pipeline.text.normalize.engine import normalize_words
from talkwire_pipeline.text.normalize.spans import Normalized, SourceSpan

__all__ = ["Normalized", "SourceSpan", "normalize_words"]
