"""Common English abbreviations."""

from __future__ import annotations

TITLES = {
    "Dr": "Doctor",
    "Mr": "Mister",
    "Mrs": "Missus",
    "Ms": "Miss",
    "Prof": "Professor",
    "Gen": "General",
    "Col": "Colonel",
    "Capt": "Captain",
    "Lt": "Lieutenant",
    "Sgt": "Sergeant",
    "Rev": "Reverend",
    "Gov": "Governor",
    "Sen": "Senator",
    "Rep": "Representative",
    "Jr": "Junior",
    "Sr": "Senior",
    "Mt": "Mount",
    "Ave": "Avenue",
    "Rd": "Road",
    "Blvd": "Boulevard",
    "Dept": "Department",
    "Inc": "Incorporated",
    "Ltd": "Limited",
    "Corp": "Corporation",
    "Co": "Company",
}
"""Written with a capital and a full stop."""
PHRASES = {
    "e.g": "for example",
    "i.e": "that is",
    "etc": "et cetera",
    "vs": "versus",
    "approx": "approximately",
    "dept": "department",
    "est": "estimated",
    "incl": "including",
    "tel": "telephone",
    "ext": "extension",
    "a.k.a": "also known as",
}
"""Written in small letters with a full stop."""
COUNTED = {
    "No": "number",
    "no": "number",
    "Fig": "figure",
    "fig": "figure",
    "p": "page",
    "pp": "pages",
    "vol": "volume",
}
"""Read so only before a number."""
