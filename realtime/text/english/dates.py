"""Dates and times of day as they are spoken."""

from __future__ import annotations

import re

from realtime.text.english.abbreviations import TIME_QUALIFIERS
from realtime.text.english.numbers import cardinal, ordinal, year
from realtime.text.rules import Rule, rule

__all__ = ["DATES"]

_MONTHS = "January February March April May June July August September October November December".split()
_MONTH = "|".join([*_MONTHS, r"Sept\.?", *(name[:3] + r"\.?" for name in _MONTHS if name != "May")])
_YEAR = "1[0-9]{3}|20[0-9]{2}"


def _month_number(name: str) -> int:
    return next(number for number, month in enumerate(_MONTHS, 1) if month.startswith(name[:3]))


def _month_first(month: int, day: str, years: str | None) -> str:
    return f"{_MONTHS[month - 1]} {ordinal(str(int(day)))}" + (f", {year(years)}" if years else "")


def _day_first(day: str, month: int, years: str | None) -> str:
    return f"the {ordinal(str(int(day)))} of {_MONTHS[month - 1]}" + (f", {year(years)}" if years else "")


def _is_date(month: str, day: str) -> bool:
    return 1 <= int(month) <= 12 and 1 <= int(day) <= 31


def _iso(match: re.Match[str]) -> str:
    is_date = _is_date(match[3], match[4])
    return _month_first(int(match[3]), match[4], match[1]) if is_date else match[0]


def _slashed(match: re.Match[str]) -> str:
    """Month first, as in the United States."""
    if not _is_date(match[1], match[2]):
        return match[0]
    years = match[3] if len(match[3]) == 4 else f"20{match[3]}"
    return _month_first(int(match[1]), match[2], years)


def _slashed_without_year(match: re.Match[str]) -> str:
    if not _is_date(match[2], match[3]):
        return match[0]
    return f"{match[1]} {_month_first(int(match[2]), match[3], None)}"


def _dotted(match: re.Match[str]) -> str:
    return _day_first(match[1], int(match[2]), match[3]) if _is_date(match[2], match[1]) else match[0]


def _named(match: re.Match[str]) -> str:
    name, day, last_day, years = match.groups()
    if not _is_date("1", last_day or day) or not _is_date("1", day):
        return match[0]
    if not last_day:
        return _month_first(_month_number(name), day, years)
    return f"{_month_first(_month_number(name), day, None)} to {ordinal(last_day)}" + (
        f", {year(years)}" if years else ""
    )


def _named_day_first(match: re.Match[str]) -> str:
    if not _is_date("1", match[2]):
        return match[0]
    return _day_first(match[2], _month_number(match[3]), match[4])


def _half(text: str) -> str:
    return f" {text[0].upper()}M"


def _time(match: re.Match[str]) -> str:
    hour, minute, second, half = match.groups()
    spoken = cardinal(str(int(hour)))
    if minute != "00" or second:
        spoken += f" oh {cardinal(minute[1])}" if minute[0] == "0" else f" {cardinal(minute)}"
    elif not half:
        spoken += " o'clock" if 1 <= int(hour) <= 12 else " hundred"
    if second and int(second):
        spoken += f" and {cardinal(str(int(second)))} second{'s' if int(second) != 1 else ''}"
    return spoken + (_half(half) if half else "")


# "p.m." ends in a dot of its own; one that also ends the sentence stays, which the next capital tells.
_SENTENCE = rf"\s+(?!(?i:{'|'.join(sorted(TIME_QUALIFIERS))})\b)[A-Z]"
_HALF = rf"([AaPp](?:\.[Mm]\.(?!{_SENTENCE})|\.?[Mm])(?!\w))"

_HALVES = r"[AaPp]\.?[Mm]\.?"

DATES: list[Rule] = [
    # From one time to another, before the times are words.
    rule(rf"(?<=[0-9])(:[0-5][0-9]|\s?{_HALVES})\s?[-–—]\s?(?=[0-9])", r"\1 to "),
    rule(rf"\b([0-9]{{1,2}})\s?[-–—]\s?(?=[0-9]{{1,2}}(?::[0-9]{{2}})?\s?{_HALVES}(?!\w))", r"\1 to "),
    rule(r"(?<=[0-9])T(?=[0-9]{2}:[0-9]{2})", " at "),
    rule(r"(?<![\w-])([0-9]{4})([-/])([0-9]{2})\2([0-9]{2})(?![\w-])", _iso),
    rule(r"(?<![\w/])([0-9]{1,2})/([0-9]{1,2})/([0-9]{4}|[0-9]{2})(?![\w/])", _slashed),
    rule(r"\b([Oo]n|[Bb]y|[Uu]ntil|[Ss]ince|[Dd]ue) ([0-9]{1,2})/([0-9]{1,2})(?![\w/])", _slashed_without_year),
    rule(r"(?<![\w.])([0-9]{1,2})\.([0-9]{1,2})\.([0-9]{4})(?![\w]|\.[0-9])", _dotted),
    rule(
        rf"\b({_MONTH})\s+([0-9]{{1,2}})(?:st|nd|rd|th)?(?:\s?[-–]\s?([0-9]{{1,2}}))?(?:,?\s+({_YEAR}))?(?![\w:]|[.,][0-9])",
        _named,
    ),
    rule(
        rf"(?<![\w.,:])([Tt]he\s+)?([0-9]{{1,2}})(?:st|nd|rd|th)?\s+({_MONTH})(?:,?\s+({_YEAR}))?(?!\w)",
        _named_day_first,
    ),
    rule(rf"(?<![\w:.])([01]?[0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?(?:\s?{_HALF})?(?![\w:])", _time),
    rule(rf"(?<![\w:.,])(1[0-2]|0?[1-9])\s?{_HALF}", lambda m: cardinal(str(int(m[1]))) + _half(m[2])),
    rule(rf"\b({_MONTH})(?=\s+(?:{_YEAR})(?![\w,]))", lambda m: _MONTHS[_month_number(m[1]) - 1]),
    # Ratios and scores.
    rule(r"(?<=[0-9]):(?=[0-9])", " to "),
]
