"""Abbreviations and symbols between words as they are spoken."""

from __future__ import annotations

import re

from realtime.text.rules import Rule, rule

__all__ = ["WORDS"]

# Written with a dot behind it -> spoken.
_SHORTENED = {
    "Dr": "Doctor", "Mr": "Mister", "Mrs": "Missus", "Ms": "Miss", "Prof": "Professor", "Jr": "Junior",
    "Sr": "Senior", "Gen": "General", "Col": "Colonel", "Lt": "Lieutenant", "Sgt": "Sergeant", "Capt": "Captain",
    "Rev": "Reverend", "Gov": "Governor", "Sen": "Senator", "Mt": "Mount", "e.g": "for example", "i.e": "that is",
    "a.k.a": "also known as", "etc": "et cetera", "Etc": "Et cetera", "vs": "versus", "approx": "approximately",
    "dept": "department", "Inc": "Incorporated", "Ltd": "Limited", "Corp": "Corporation", "Ave": "Avenue",
    "Blvd": "Boulevard", "Rd": "Road", "Hwy": "Highway", "Jan": "January", "Feb": "February", "Aug": "August",
    "Sept": "September", "Oct": "October", "Nov": "November", "Dec": "December",
}  # fmt: skip
_SHORT = "|".join(re.escape(short) for short in _SHORTENED)

WORDS: list[Rule] = [
    rule(r"\bSt\.(?=\s+[A-Z])", "Saint"),
    rule(r"\bSt\.(?!\w)", "Street"),
    rule(r"\b(e\.g|i\.e)\.,?(?!\w)", lambda m: f"{_SHORTENED[m[1]]},"),
    rule(rf"\b({_SHORT})\.(?!\w)", lambda m: _SHORTENED[m[1]]),
    rule(r"\bvs(?!\w)", "versus"),
    rule(r"\bw/o(?!\w)", "without"),
    rule(r"(?<!\w)w/\s?(?=[A-Za-z])", "with "),
    # Initials lose their dots, and keep apart: "U.S." is no word.
    rule(r"\b(?:[A-Z]\.){2,}", lambda m: " ".join(re.findall("[A-Z]", m[0]))),
    rule(r"\b([CF])#(?!\w)", r"\1 sharp"),
    rule(r"\b([Cc])\+\+(?!\w)", r"\1 plus plus"),
    rule(r"\s*&\s*", " and "),
    rule(r"\s*(?:<=|≤)\s*", " less than or equal to "),
    rule(r"\s*(?:>=|≥)\s*", " greater than or equal to "),
    rule(r"\s*(?:!=|≠)\s*", " not equal to "),
    rule(r"\s*(?:-+>|→|⇒|=>)\s*", " to "),
    rule(r"(?<=[\w)])\s?<\s?(?=[\w(])", " less than "),
    rule(r"(?<=[\w)])\s?>\s?(?=[\w(])", " greater than "),
    rule(r"\s*\+\s*", " plus "),
    rule(r"\s*=+\s*", " equals "),
    rule(r"(?<=\w)\s*@\s*(?=\w)|(?<!\w)@(?=\w)", " at "),
    rule(r"§+\s*", "section "),
    rule(r"(?<=\w)²", " squared"),
    rule(r"(?<=\w)³", " cubed"),
    rule(r"/", " "),
    rule(r"(?<!\w)-+(?=[A-Za-z])", ""),
    rule(r"\s+-+\s+|\s*-{2,}\s*", ", "),
]
