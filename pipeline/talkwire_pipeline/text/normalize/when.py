"""Dates and times of day."""

from __future__ import annotations

from talkwire_pipeline.text.calendar_names import MONTHS
from talkwire_pipeline.text.normalize.numbers import Numbers

MONTH_PATTERN = (
    "(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|Oct(?:ober)?"
    "|Nov(?:ember)?|Dec(?:ember)?)"
)


def month_name(name: str) -> str:
    """`"Dec"`: December."""
    return next(month for month in MONTHS if month.startswith(name[:3]))


def date_in_figures(year: str, month: str, day: str, say: Numbers) -> str:
    """December first, twenty twenty six; month and day change places where that alone makes sense."""
    if int(month) > 12 and int(day) <= 12:
        month, day = day, month
    if not (1 <= int(month) <= 12 and 1 <= int(day) <= 31):
        return " ".join(say.cardinal(part) for part in (year, month, day))
    return date_in_words(MONTHS[int(month) - 1], str(int(day)), year, say)


def date_in_words(month: str, day: str, year: str | None, say: Numbers) -> str:
    """`"December", "1", "2026"`: December first, twenty twenty six."""
    spoken = f"{month} {say.ordinal(day)}"
    return f"{spoken}, {year_of(year, say)}" if year else spoken


def year_of(number: str, say: Numbers) -> str:
    """A year of four digits as years are read; other numbers as they are."""
    return say.year(number) if is_year(number) else say.cardinal(number)


def is_year(number: str) -> bool:
    """Whether a plain number is read in pairs of digits: 1100 to 2099."""
    return len(number) == 4 and number.isdecimal() and 1100 <= int(number) <= 2099


def time_of_day(hour: str, minute: str | None, half: str | None, say: Numbers) -> str:
    """`"7", "45", "pm"`: seven forty five p m. Without a half: seven o'clock, nineteen thirty."""
    spoken = say.cardinal(str(int(hour)))
    if minute and int(minute):
        spoken += " oh " + say.cardinal(minute[1]) if minute[0] == "0" else " " + say.cardinal(minute)
    elif not half:
        spoken += " o'clock" if 1 <= int(hour) <= 12 else " hundred"
    return f"{spoken} {half[0].lower()} m" if half else spoken
