"""Figures as words: a decimal comma, thousands in groups."""

from __future__ import annotations

import re

from realtime.text.romance.lexicon import Lexicon
from realtime.text.rules import Rule, rule

__all__ = ["MAX_CARDINAL_DIGITS", "NUMBER", "SEPARATOR", "START", "Numbers", "grouping"]

SEPARATOR = "\u2009"
MAX_CARDINAL_DIGITS = 15
_MAX_DECIMALS_AS_NUMBER = 2
"""So many decimals are read as a number ("coma catorce"), more of them one by one."""

NUMBER = rf"(?:[0-9]{{1,3}}(?:{SEPARATOR}[0-9]{{3}})+(?![0-9])|[0-9]+)(?:[.,][0-9]+)?(?![0-9])"
"""A figure once `grouping` was applied."""
START = r"(?<![\w.,])"

_BLANK = "[ \u00a0\u202f\u2009]"


def grouping() -> list[Rule]:
    """Thousands in groups, however they are set, get thin spaces between them.

    A single point before three digits is taken for a group, and so is a space; a single comma never is.
    """

    def separated(match: re.Match[str]) -> str:
        return match[1] + SEPARATOR.join(["", *re.findall("[0-9]{3}", match[2])]) + (match[3] or "")

    end = r"(?![0-9]|[.,][0-9])"
    return [
        rule(rf"(?<![\w.,])([1-9][0-9]{{0,2}})((?:\.[0-9]{{3}})+)(,[0-9]+)?{end}", separated),
        rule(rf"(?<![\w.,])([1-9][0-9]{{0,2}})((?:,[0-9]{{3}})+)(\.[0-9]+){end}", separated),
        rule(rf"(?<![\w.,])([1-9][0-9]{{0,2}})((?:,[0-9]{{3}}){{2,}}){end}()", separated),
        rule(rf"(?<![\w.,])(?<![0-9]{_BLANK})([1-9][0-9]{{0,2}})((?:{_BLANK}[0-9]{{3}})+)([.,][0-9]+)?(?!{_BLANK}?[0-9])",
             separated),
    ]  # fmt: skip


class Numbers:
    """Arguments are figures as `NUMBER` matches them, or bare digits."""

    def __init__(self, lexicon: Lexicon) -> None:
        self._lexicon = lexicon

    def digits(self, text: str) -> str:
        """One by one; anything else in `text` is skipped."""
        return " ".join(self._lexicon.digits[int(char)] for char in text if char in "0123456789")

    def alone(self, text: str) -> str:
        """As counted. Leading zeros and very long numbers go digit by digit."""
        bare = text.replace(SEPARATOR, "")
        return self.digits(bare) if self._is_code(bare) else self._lexicon.alone(int(bare))

    def counting(self, text: str, is_feminine: bool) -> str:
        """As before a noun: 21 -> "veintiún"; decimals as `decimal` has them."""
        bare = text.replace(SEPARATOR, "")
        if not bare.isdigit():
            return self.decimal(bare)
        return self.digits(bare) if self._is_code(bare) else self._lexicon.cardinal(int(bare), is_feminine)

    def decimal(self, text: str) -> str:
        """One comma or point: "3,14" -> "tres coma catorce", "0,125" -> "cero coma uno dos cinco"."""
        match = re.fullmatch(r"([0-9]*)([.,])([0-9]+)", text.replace(SEPARATOR, ""))
        assert match is not None, f"not a decimal: {text!r}"
        whole, mark, decimals = match.groups()
        zeros = len(decimals) - len(decimals.lstrip("0"))
        if len(decimals) > _MAX_DECIMALS_AS_NUMBER or zeros == len(decimals):
            part = self.digits(decimals)
        else:
            part = f"{self.digits('0' * zeros)} {self._lexicon.alone(int(decimals))}".strip()
        spoken_mark = self._lexicon.comma if mark == "," else self._lexicon.point
        return f"{self.alone(whole or '0')} {spoken_mark} {part}"

    def version(self, text: str) -> str:
        """ "2.10.1" -> each part, and the points."""
        return f" {self._lexicon.point} ".join(map(self.alone, text.split(".")))

    def is_plural(self, text: str) -> bool:
        return self._lexicon.is_plural(float(text.replace(SEPARATOR, "").replace(",", ".")))

    def ordinal(self, text: str, is_feminine: bool) -> str:
        bare = text.replace(SEPARATOR, "")
        value = int(bare) if len(bare) <= MAX_CARDINAL_DIGITS else 0
        return self._lexicon.ordinal(value, is_feminine) if value else self.digits(bare)

    def fraction(self, numerator: str, denominator: str) -> str:
        """ "3", "4" -> "tres cuartos". What no clock or cake is cut into is read "over"."""
        top, bottom = int(numerator), int(denominator)
        if top == 1 and bottom == 2:
            return self._lexicon.half
        part = self._lexicon.parts.get(bottom)
        if part is None or not 1 <= top < bottom:
            return f"{self.alone(numerator)} {self._lexicon.over} {self.alone(denominator)}"
        return f"{self._lexicon.cardinal(top, part.is_feminine)} {part.one if top == 1 else part.many}"

    def mixed(self, whole: str, numerator: str, denominator: str) -> str:
        """ "2", "1", "2" -> "dos y medio"."""
        if (numerator, denominator) == ("1", "2"):
            return f"{self.alone(whole)} {self._lexicon.and_half}"
        return f"{self.alone(whole)} {self._lexicon.and_half.split()[0]} {self.fraction(numerator, denominator)}"

    @staticmethod
    def _is_code(bare: str) -> bool:
        return (len(bare) > 1 and bare[0] == "0") or len(bare) > MAX_CARDINAL_DIGITS
