"""The table of rules: what is found in an English text, and what it becomes. The first that fits wins."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from talkwire_pipeline.text.normalize import abbreviations, money, when
from talkwire_pipeline.text.normalize.numbers import Numbers, digits
from talkwire_pipeline.text.normalize.symbols import WORDS
from talkwire_pipeline.text.normalize.web import address

Match = re.Match[str]


class Rule(NamedTuple):
    """A pattern and what its match is read as. Groups are named uniquely over the table."""

    name: str
    pattern: str
    say: Callable[[Match, Numbers], str]


_INTEGER = r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)"
_NUMBER = rf"{_INTEGER}(?:\.\d+)?"
_MINUS = r"(?:(?<![\w)\]])-)?"
_HALF = r"(?:[aApP]\.[mM]\.|[aApP][mM]\b)"
_NOT_INSIDE = r"(?<![\w.])"
_LAST_OF_ADDRESS = r"[^\s<>\"]*[\w/]"
_DOMAINS = "com|org|net|edu|gov|info|io|dev|ai|app|me|co|uk|de|fr|eu|us"


def _any(words: dict[str, object]) -> str:
    """Alternatives, longest first."""
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


def _money(found: Match, say: Numbers) -> str:
    minus = "minus " if found["money_minus"] else ""
    return minus + money.money(found["money_sign"], found["money_amount"], found["money_scale"] or "", say)


def _money_behind(found: Match, say: Numbers) -> str:
    return money.money(found["behind_sign"], found["behind_amount"], "", say)


def _month_day(found: Match, say: Numbers) -> str:
    return when.date_in_words(when.month_name(found["md_month"]), found["md_day"], found["md_year"], say)


def _day_month(found: Match, say: Numbers) -> str:
    day, month = say.ordinal(found["dm_day"]), when.month_name(found["dm_month"])
    return f"the {day} of {month}" + (f", {when.year_of(found['dm_year'], say)}" if found["dm_year"] else "")


def _month(found: Match, say: Numbers) -> str:
    return when.month_name(found["my_month"])


def _iso_date(found: Match, say: Numbers) -> str:
    return when.date_in_figures(found["iso_year"], found["iso_month"], found["iso_day"], say)


def _slash_date(found: Match, say: Numbers) -> str:
    return when.date_in_figures(found["us_year"], found["us_month"], found["us_day"], say)


def _time(found: Match, say: Numbers) -> str:
    return when.time_of_day(found["time_hour"], found["time_minute"], found["time_half"], say)


def _hour(found: Match, say: Numbers) -> str:
    return when.time_of_day(found["hour"], None, found["hour_half"], say)


def _phone(found: Match, say: Numbers) -> str:
    groups = [digits(group) for group in re.findall(r"\d+", found[0])]
    return ("plus " if found[0].startswith("+") else "") + ", ".join(groups)


def _quantity(found: Match, say: Numbers) -> str:
    return money.quantity(found["unit_amount"], found["unit"], say)


def _version(found: Match, say: Numbers) -> str:
    return " point ".join(say.cardinal(part) for part in found[0].split("."))


def _range(found: Match, say: Numbers) -> str:
    first, last = (_plain(found[name], say) for name in ("range_first", "range_last"))
    return f"{first} to {last}"


def _mixed(found: Match, say: Numbers) -> str:
    over, under = found["over"], found["under"]
    part = say.fraction(over, under) if len(under) <= 3 else None
    whole = say.cardinal(found["mixed_whole"]) if found["mixed_whole"] else ""
    if part is None:
        return f"{whole} {say.cardinal(over)} over {say.cardinal(under)}".lstrip()
    if not whole:
        return part
    return f"{whole} and {part.replace('one ', 'a ', 1) if over == '1' else part}"


def _and_part(found: Match, say: Numbers) -> str:
    return f"{say.cardinal(found['and_whole'])} and {WORDS[found['and_part']].replace('one ', 'a ', 1)}"


def _decade(found: Match, say: Numbers) -> str:
    return say.plural(_plain(found["decade"], say))


def _plain(number: str, say: Numbers) -> str:
    return say.year(number) if when.is_year(number) else say.number(number)


def _initials(found: Match, say: Numbers) -> str:
    return " ".join(found[0].replace(".", ""))


def _title(found: Match, say: Numbers) -> str:
    return abbreviations.TITLES[found["title"]]


def _phrase(found: Match, say: Numbers) -> str:
    return abbreviations.PHRASES[found["phrase"].lower()]


NUMBER_RULES: tuple[Rule, ...] = (
    Rule("decimal", rf"{_MINUS}(?:{_INTEGER}|(?<![\w.]))\.\d+", lambda found, say: say.number(found[0])),
    Rule("integer", rf"{_MINUS}{_INTEGER}", lambda found, say: _plain(found[0], say)),
)
"""Those that hold in every language."""

ENGLISH_RULES: tuple[Rule, ...] = (
    Rule(
        "email",
        r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}",
        lambda found, say: address(found[0], say),
    ),
    Rule("url", rf"(?:https?://|\bwww\.){_LAST_OF_ADDRESS}", lambda found, say: address(found[0], say)),
    Rule(
        "domain",
        rf"(?<![\w.@-])(?:[A-Za-z0-9-]{{1,63}}\.){{1,4}}(?:{_DOMAINS})\b(?:/(?:{_LAST_OF_ADDRESS})?)?",
        lambda found, say: address(found[0], say),
    ),
    Rule("month_year", rf"\b(?P<my_month>{when.MONTH_PATTERN})\.?(?=\s+\d{{4}}\b)", _month),
    Rule("iso_date", rf"{_NOT_INSIDE}(?P<iso_year>\d{{4}})-(?P<iso_month>\d\d)-(?P<iso_day>\d\d)(?![\w-])", _iso_date),
    Rule(
        "slash_date",
        rf"{_NOT_INSIDE}(?P<us_month>\d{{1,2}})/(?P<us_day>\d{{1,2}})/(?P<us_year>\d{{4}})(?![\w/])",
        _slash_date,
    ),
    Rule(
        "month_day",
        rf"\b(?P<md_month>{when.MONTH_PATTERN})\.?\s+(?P<md_day>[0-3]?\d)(?:st|nd|rd|th)?\b(?![:.]\d)"
        r"(?:,?\s+(?P<md_year>\d{4})\b)?",
        _month_day,
    ),
    Rule(
        "day_month",
        rf"{_NOT_INSIDE}(?:the\s+)?(?P<dm_day>[0-3]?\d)(?:st|nd|rd|th)?\s+(?:of\s+)?(?P<dm_month>{when.MONTH_PATTERN})\b"
        r"\.?(?:,?\s+(?P<dm_year>\d{4})\b)?",
        _day_month,
    ),
    Rule(
        "time",
        rf"{_NOT_INSIDE}(?P<time_hour>[01]?\d|2[0-4]):(?P<time_minute>[0-5]\d)(?![\d:])(?:\s?(?P<time_half>{_HALF}))?",
        _time,
    ),
    Rule("hour_of_day", rf"{_NOT_INSIDE}(?P<hour>1[0-2]|0?[1-9])\s?(?P<hour_half>{_HALF})", _hour),
    Rule(
        "money",
        rf"(?P<money_minus>(?<![\w)\]])-)?(?P<money_sign>[$€£¥₹])\s?(?P<money_amount>{_NUMBER})"
        r"(?:\s?(?P<money_scale>thousand|million|billion|trillion|bn|mn|[kKmMbB])\b)?",
        _money,
    ),
    Rule("money_behind", rf"(?P<behind_amount>{_NUMBER})\s?(?P<behind_sign>[€£])", _money_behind),
    Rule(
        "phone",
        rf"{_NOT_INSIDE}(?:\+?\d{{1,3}}[ .-])?(?:\(\d{{3}}\)\s?|\d{{3}}[ .-])?\d{{3}}[.-]\d{{4}}(?![\w-])"
        r"|\+\d{1,3}(?:[ -]?\(?\d{2,4}\)?){2,5}(?!\d)",
        _phone,
    ),
    Rule("quantity", rf"(?P<unit_amount>{_MINUS}{_NUMBER})\s?(?P<unit>{_any(dict(money.UNITS))})(?![\w²³])", _quantity),
    Rule("version", r"(?<![\d.])\d{1,6}(?:\.\d{1,6}){2,8}(?!\d)", _version),
    Rule("range", rf"(?<![\w.,-])(?P<range_first>{_NUMBER})\s?[-–]\s?(?P<range_last>{_NUMBER})(?![\w-])", _range),
    Rule("all_day", r"(?<![\w/])24/7(?![\w/])", lambda found, say: "twenty four seven"),
    Rule(
        "fraction",
        r"(?<![\w./])(?:(?P<mixed_whole>\d{1,9})\s)?(?P<over>\d{1,9})[/\u2044](?P<under>\d{1,9})(?![\w/])",
        _mixed,
    ),
    Rule(
        "ordinal",
        rf"(?P<ordinal_number>{_INTEGER})(?:st|nd|rd|th)\b",
        lambda found, say: say.ordinal(found["ordinal_number"]),
    ),
    Rule("and_part", rf"(?P<and_whole>{_INTEGER})\s?(?P<and_part>[½¼¾⅓⅔])", _and_part),
    Rule("decades", r"(?<!\d)'?(?P<decade>\d{1,3}0)'?s\b", _decade),
    Rule("to", r"(?<=\d)\s?[-–]\s?(?=[$€£¥₹]\d)", lambda found, say: "to"),
    Rule("times", r"(?<=\d)\s?[*x×]\s?(?=\d)", lambda found, say: "times"),
    Rule("half_day", rf"(?<!\w){_HALF}", lambda found, say: f"{found[0][0].lower()} m"),
    Rule("number_sign", r"#(?=\d)", lambda found, say: "number"),
    Rule("hashtag", r"#(?=[^\W\d_])", lambda found, say: "hashtag"),
    Rule("about", r"~(?=\s?[\d$€£])", lambda found, say: "about"),
    Rule("saint", r"\bSt\.(?=\s+[A-Z])", lambda found, say: "Saint"),
    Rule("street", r"\bSt\.", lambda found, say: "Street"),
    Rule("title", rf"\b(?P<title>{_any(dict(abbreviations.TITLES))})\.", _title),
    Rule("phrase", rf"(?<![\w.])(?P<phrase>(?i:{_any(dict(abbreviations.PHRASES))}))\.", _phrase),
    Rule("versus", r"\bvs\b", lambda found, say: "versus"),
    Rule(
        "counted",
        rf"\b(?P<counted>{_any(dict(abbreviations.COUNTED))})\.(?=\s?\d)",
        lambda found, say: abbreviations.COUNTED[found["counted"]],
    ),
    Rule("initials", r"\b(?:[A-Z]\.){2,20}", _initials),
    *NUMBER_RULES,
)
"""All of them."""
