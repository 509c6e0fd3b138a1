"""Figures that French writes in its own way: times of day, telephone numbers, codes, ordinals, centuries and kings."""

from __future__ import annotations

import re

from realtime.text.french.lexicon import LEXICON, alone, cardinal, ordinal
from realtime.text.romance.numbers import Numbers
from realtime.text.romance.roman import NUMERAL, roman_after, roman_value
from realtime.text.rules import Rule, rule

__all__ = ["CODES", "ORDINALS", "ROMAN", "TIMES"]

_NUMBERS = Numbers(LEXICON)


def _hour(text: str) -> str:
    hour = int(text)
    return f"{cardinal(hour, True)} heure{'s' if hour > 1 else ''}"


def _time(match: re.Match[str]) -> str:
    hour, minute, second = match.groups()
    said = _hour(hour)
    if minute and (int(minute) or second):
        said += f" {cardinal(int(minute), True)}"
    if second:
        said += f" et {cardinal(int(second), True)} seconde{'s' if int(second) > 1 else ''}"
    return said


_CLOCK = r"(?<![\w:.,])([01]?[0-9]|2[0-4])"

TIMES: list[Rule] = [
    rule(r"(?<![\w/])24\s?h(?:eures)?\s?(?:/|sur)\s?24(?![\w/])", "vingt-quatre heures sur vingt-quatre"),
    rule(r"(?<![\w/])7\s?j(?:ours)?\s?(?:/|sur)\s?7(?![\w/])", "sept jours sur sept"),
    rule(r"(?<![\w/])24/7(?![\w/])", "vingt-quatre heures sur vingt-quatre, sept jours sur sept"),
    rule(r"(?<=[0-9])(\s?[hH](?:\s?[0-5][0-9])?|:[0-5][0-9])\s?[-–—]\s?(?=[0-9])", r"\1 à "),
    rule(rf"{_CLOCK}:([0-5][0-9])(?::([0-5][0-9]))?(?:\s?h\b)?(?![\w:])", _time),
    rule(rf"{_CLOCK}\s?[hH]\s?([0-5][0-9])()(?:\s?(?:min|mn)\b)?(?!\w|[.,][0-9])", _time),
    rule(rf"{_CLOCK}\s?[hH](?!\w|/)", lambda m: _hour(m[1])),
]


def _by_pairs(match: re.Match[str]) -> str:
    """A French telephone number: "zéro six, douze, trente-quatre"."""
    head, pairs = match[1], re.findall("[0-9]{2}", match[2])
    country = f"plus {alone(33)}, " if head.startswith("+") else f"{_NUMBERS.digits('0')} "
    said = [alone(int(head[-1])), *(_NUMBERS.alone(pair) for pair in pairs)]
    return country + ", ".join(said)


def _groups(match: re.Match[str]) -> str:
    """Other telephone, account and card numbers: digit by digit, a breath between the groups."""
    sign = "plus " if match[0].startswith("+") else ""
    return sign + ", ".join(_NUMBERS.digits(group) for group in re.findall("[0-9]+", match[0]))


_END = r"(?![\w-]|[.,][0-9])"

CODES: list[Rule] = [
    rule(rf"(?<![\w.,+-])(0[1-9]|\+33[ .-]?(?:\(0\))?[1-9])((?:[ .-]?[0-9]{{2}}){{4}}){_END}", _by_pairs),
    rule(rf"(?<![\w.,])\+[0-9]{{1,3}}(?:[ .-]?\(?[0-9]{{1,5}}\)?){{2,6}}{_END}", _groups),
    rule(rf"(?<![\w.,-])\(?[0-9]{{3}}\)?[ -][0-9]{{3}}-[0-9]{{4}}{_END}", _groups),
    rule(rf"(?<![\w.,-])[0-9]{{3}}-[0-9]{{4}}{_END}", _groups),
    rule(rf"(?<![\w.,-])[0-9]{{1,6}}(?:-[0-9]{{1,6}}){{2,7}}{_END}", _groups),
    rule(rf"(?<![\w.,-])[0-9]{{4}}(?: [0-9]{{4}}){{2,5}}{_END}", _groups),
    rule(r"\b((?i:code(?: postal| confidentiel)?|pin|mot de passe|poste|référence|terminant par)(?:,| est| :|:)? )"
         r"([0-9]{3,})(?![\w.,]*[0-9])", lambda m: m[1] + _NUMBERS.digits(m[2])),
]  # fmt: skip


def _ordinal(match: re.Match[str]) -> str:
    """ "1re" -> "première"; "2nd" -> "second"; "3es" -> "troisièmes"."""
    figures, form, plural = match.groups()
    if form in ("nd", "nde", "d", "de"):
        return f"second{'e' if form.endswith('e') else ''}{plural}"
    return _NUMBERS.ordinal(figures, form in ("re", "ère", "ere")) + plural


ORDINALS: list[Rule] = [
    rule(r"\b[Nn](?:[°º]|os?\.?)\s?(?=[0-9])|#\s?(?=[0-9])|№\s?", "numéro "),
    rule(r"(?<![\w.,])(1)(er|re|ère|ere)(s?)(?!\w)", _ordinal),
    rule(r"(?<![\w.,])(2)(nde?|de?)(s?)(?!\w)", _ordinal),
    rule(r"(?<![\w.,])([0-9]{1,4})(e|è|[eè]me|ième)(s?)(?!\w)", _ordinal),
    rule(r"(?<![\w/])1/2 (?=heure)", "une demi-"),
]


def _king(value: int, _: str) -> str:
    return ordinal(value, False) if value == 1 else alone(value)


_KINGS = "Louis|Charles|Henri|Philippe|François|Napoléon|Jean|Jean-Paul|Jean-Baptiste|Pie|Léon|Benoît|Georges|Édouard"
_QUEENS = "Élisabeth|Catherine"
_COUNTED = "[Cc]hapitre|[Tt]ome|[Vv]olume|[Tt]itre|[Aa]rticle|[Pp]hase|[Pp]artie|[Aa]cte"

ROMAN: list[Rule] = [
    rule(rf"(?<!\w)(?=[IVX])({NUMERAL})(?:er|e|è|ème|ᵉ)(?=\s|[-,.;:)]|$)", lambda m: ordinal(roman_value(m[1]), False)),
    roman_after(_COUNTED, lambda value, _: alone(value)),
    roman_after(_KINGS, _king),
    roman_after(_QUEENS, lambda value, _: ordinal(value, True) if value == 1 else alone(value)),
]
