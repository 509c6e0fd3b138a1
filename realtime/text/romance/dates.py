"""Dates, the day before the month."""

from __future__ import annotations

import re

from realtime.text.romance.lexicon import Lexicon
from realtime.text.rules import Rule, rule

__all__ = ["dates"]

_YEAR = "1[0-9]{3}|20[0-9]{2}"


def dates(lexicon: Lexicon) -> list[Rule]:
    months = "|".join(lexicon.months)
    short = "|".join(rf"{name}\.?" for name in sorted(lexicon.short_months, key=len, reverse=True))
    join = lexicon.month_join
    join_pattern = r"\s+(?:de\s+)?"

    def day(text: str) -> str:
        return lexicon.first_of_month if int(text) == 1 else lexicon.alone(int(text))

    def date(days: str, month: int, years: str | None) -> str:
        said = f"{day(days)}{join}{lexicon.months[month - 1]}"
        return f"{said}{join}{lexicon.alone(int(years))}" if years else said

    def is_date(days: str, month: str) -> bool:
        return 1 <= int(days) <= 31 and 1 <= int(month) <= 12

    def iso(match: re.Match[str]) -> str:
        return date(match[4], int(match[3]), match[1]) if is_date(match[4], match[3]) else match[0]

    def by_number(match: re.Match[str]) -> str:
        if not is_date(match[1], match[3]):
            return match[0]
        return date(match[1], int(match[3]), match[4] if len(match[4]) == 4 else f"20{match[4]}")

    def without_year(match: re.Match[str]) -> str:
        if not is_date(match[2], match[3]):
            return match[0]
        return f"{match[1]} {date(match[2], int(match[3]), None)}"

    def named(match: re.Match[str]) -> str:
        if not is_date(match[1], "1"):
            return match[0]
        name = match[2].rstrip(".").lower()
        month = lexicon.short_months.get(name) or lexicon.months.index(name) + 1
        return date(match[1], month, match[3])

    return [
        rule(r"(?<=[0-9])T(?=[0-9]{2}:[0-9]{2})", ", "),
        rule(r"(?<![\w-])([0-9]{4})([-/])([0-9]{2})\2([0-9]{2})(?![\w-])", iso),
        rule(r"(?<![\w/.-])([0-9]{1,2})([/-])([0-9]{1,2})\2([0-9]{4}|[0-9]{2})(?![\w/-]|\.[0-9])", by_number),
        rule(r"(?<![\w/.-])([0-9]{1,2})(\.)([0-9]{1,2})\.([0-9]{4})(?![\w/-]|\.[0-9])", by_number),
        rule(rf"\b({lexicon.day_words})\s([0-9]{{1,2}})/([0-9]{{1,2}})(?![\w/])", without_year),
        rule(
            rf"(?<![\w.,:])([0-9]{{1,2}}){join_pattern}({months}|{short})(?!\w)"
            rf"(?:(?:\s+de(?:l)?)?\s+({_YEAR})(?![\w,.]*[0-9]))?",
            named,
            re.IGNORECASE,
        ),
    ]
