"""Amounts of money, percentages, and quantities with a unit."""

from __future__ import annotations

from talkwire_pipeline.text.normalize.numbers import Numbers

CURRENCIES = {
    "$": ("dollar", "dollars", "cent", "cents"),
    "€": ("euro", "euros", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "¥": ("yen", "yen", "", ""),
    "₹": ("rupee", "rupees", "paisa", "paise"),
}
SCALES = {"k": "thousand", "m": "million", "mn": "million", "b": "billion", "bn": "billion"}
UNITS = {
    "km/h": ("kilometer per hour", "kilometers per hour"),
    "kph": ("kilometer per hour", "kilometers per hour"),
    "m/s": ("meter per second", "meters per second"),
    "mph": ("mile per hour", "miles per hour"),
    "km²": ("square kilometer", "square kilometers"),
    "m²": ("square meter", "square meters"),
    "m³": ("cubic meter", "cubic meters"),
    "km": ("kilometer", "kilometers"),
    "cm": ("centimeter", "centimeters"),
    "mm": ("millimeter", "millimeters"),
    "m": ("meter", "meters"),
    "mi": ("mile", "miles"),
    "yd": ("yard", "yards"),
    "ft": ("foot", "feet"),
    "kg": ("kilogram", "kilograms"),
    "mg": ("milligram", "milligrams"),
    "g": ("gram", "grams"),
    "lbs": ("pound", "pounds"),
    "lb": ("pound", "pounds"),
    "oz": ("ounce", "ounces"),
    "ml": ("milliliter", "milliliters"),
    "mL": ("milliliter", "milliliters"),
    "l": ("liter", "liters"),
    "L": ("liter", "liters"),
    "ms": ("millisecond", "milliseconds"),
    "sec": ("second", "seconds"),
    "min": ("minute", "minutes"),
    "hrs": ("hour", "hours"),
    "hr": ("hour", "hours"),
    "h": ("hour", "hours"),
    "kWh": ("kilowatt hour", "kilowatt hours"),
    "kW": ("kilowatt", "kilowatts"),
    "W": ("watt", "watts"),
    "V": ("volt", "volts"),
    "GHz": ("gigahertz", "gigahertz"),
    "MHz": ("megahertz", "megahertz"),
    "kHz": ("kilohertz", "kilohertz"),
    "Hz": ("hertz", "hertz"),
    "dB": ("decibel", "decibels"),
    "TB": ("terabyte", "terabytes"),
    "GB": ("gigabyte", "gigabytes"),
    "MB": ("megabyte", "megabytes"),
    "kB": ("kilobyte", "kilobytes"),
    "KB": ("kilobyte", "kilobytes"),
    "px": ("pixel", "pixels"),
    "°C": ("degree celsius", "degrees celsius"),
    "℃": ("degree celsius", "degrees celsius"),
    "°F": ("degree fahrenheit", "degrees fahrenheit"),
    "℉": ("degree fahrenheit", "degrees fahrenheit"),
    "°": ("degree", "degrees"),
    "%": ("percent", "percent"),
}


def money(sign: str, amount: str, scale: str, say: Numbers) -> str:
    """`"$", "4.50", ""`: four dollars and fifty cents."""
    one, many, part_one, part_many = CURRENCIES[sign]
    if scale:
        return f"{say.number(amount)} {SCALES.get(scale.lower(), scale.lower())} {many}"
    whole, _, part = amount.partition(".")
    if len(part) not in (0, 2) or (part and not part_one):
        return f"{say.number(amount)} {many}"
    cents = _counted(part.lstrip("0"), part_one, part_many, say)
    if cents and not whole.strip("0,"):
        return cents
    return f"{_counted(whole, one, many, say)} and {cents}" if cents else _counted(whole, one, many, say)


def quantity(amount: str, unit: str, say: Numbers) -> str:
    """`"5", "km"`: five kilometers."""
    one, many = UNITS[unit]
    return f"{say.number(amount)} {one if amount in ('1', '-1') else many}"


def _counted(amount: str, one: str, many: str, say: Numbers) -> str:
    """`"3", "cent", "cents"`: three cents; empty for an empty amount."""
    return f"{say.cardinal(amount)} {one if amount == '1' else many}" if amount else ""
