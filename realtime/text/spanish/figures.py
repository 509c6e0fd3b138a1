"""Figures that Spanish writes in its own way: times of day, telephone numbers, codes, ordinals, centuries and kings."""

from __future__ import annotations

import re

from realtime.text.romance.numbers import Numbers
from realtime.text.romance.roman import NUMERAL, roman_after, roman_value
from realtime.text.rules import Rule, rule
from realtime.text.spanish.lexicon import LEXICON, alone, cardinal, ordinal

__all__ = ["CODES", "ORDINALS", "ROMAN", "TIMES"]

_NUMBERS = Numbers(LEXICON)

# "p. m." ends in a dot of its own; one that also ends the sentence stays, which the next capital tells.
_HALF = r"([AaPp])(?:\.\s?[Mm](?:\.(?!\s+[¿¡]?[A-ZÁÉÍÓÚÑ]))?|[Mm])(?!\w)"


def _half(hour: int, letter: str) -> str:
    if letter in "Aa":
        return "de la noche" if hour == 12 else "de la mañana"
    if hour == 12:
        return "del mediodía"
    return "de la noche" if 8 <= hour <= 11 else "de la tarde"


def _hour(text: str) -> str:
    return cardinal(int(text), True)


def _time(match: re.Match[str]) -> str:
    hour, minute, second, half = match.groups()
    said = _hour(hour)
    if minute != "00" or second:
        said += f" {_NUMBERS.alone(minute)}"
    elif not half and not 1 <= int(hour) <= 12:
        said += " horas"
    if second and int(second):
        said += f" y {cardinal(int(second), False)} segundo{'s' if int(second) != 1 else ''}"
    return f"{said} {_half(int(hour), half)}" if half else said


_CLOCK = r"(?<![\w:.,])([01]?[0-9]|2[0-4])"

TIMES: list[Rule] = [
    rule(r"(?<=[0-9])(:[0-5][0-9])\s?[-–—]\s?(?=[0-9])", r"\1 a "),
    rule(rf"{_CLOCK}:([0-5][0-9])(?::([0-5][0-9]))?(?:\s?{_HALF}|\s?(?:h|hs|hrs|horas)\b\.?)?(?![\w:])", _time),
    rule(rf"{_CLOCK}\.([0-5][0-9])()()\s?(?:h|hs|hrs)\b", _time),
    rule(rf"(?<![\w:.,])(1[0-2]|0?[1-9])\s?{_HALF}", lambda m: f"{_hour(m[1])} {_half(int(m[1]), m[2])}"),
]


def _groups(match: re.Match[str]) -> str:
    """Telephone, account and card numbers: a breath between the groups."""
    sign = "más " if match[0].startswith("+") else ""
    return sign + ", ".join(_NUMBERS.digits(group) for group in re.findall("[0-9]+", match[0]))


_END = r"(?![\w-]|[.,][0-9])"

CODES: list[Rule] = [
    rule(rf"(?<![\w.,])\+[0-9]{{1,3}}(?:[ .-]?\(?[0-9]{{1,5}}\)?){{2,6}}{_END}", _groups),
    # Nine digits of a Spanish telephone, whatever the groups. Other numbers in threes are thousands.
    rule(rf"(?<![\w.,+-])(?:[6-9][0-9]{{2}}[ -][0-9]{{3}}[ -][0-9]{{3}}|[6-9][0-9]{{2}}(?:[ -][0-9]{{2}}){{3}}|"
         rf"[89][0-9][ -][0-9]{{3}}[ -][0-9]{{2}}[ -][0-9]{{2}}){_END}", _groups),
    rule(rf"(?<![\w.,-])\(?[0-9]{{2,3}}\)?[ -][0-9]{{3,4}}[ -][0-9]{{4}}{_END}", _groups),
    rule(rf"(?<![\w.,-])[0-9]{{3}}-[0-9]{{4}}{_END}", _groups),
    rule(rf"(?<![\w.,-])[0-9]{{1,6}}(?:-[0-9]{{1,6}}){{2,7}}{_END}", _groups),
    rule(rf"(?<![\w.,-])[0-9]{{4}}(?: [0-9]{{4}}){{2,5}}{_END}", _groups),
    rule(r"\b((?i:código(?: postal)?|clave|pin|contraseña|extensión|ext|cp|terminada? en)\.?(?:,| es| de| el|:)? )"
         r"([0-9]{3,})(?![\w.,]*[0-9])", lambda m: m[1] + _NUMBERS.digits(m[2])),
    rule(r"(?<![\w/])24/7(?![\w/])", "veinticuatro siete"),
]  # fmt: skip


def _ordinal(match: re.Match[str]) -> str:
    """ "3.er" -> "tercer"; "2ª" -> "segunda"."""
    said = _NUMBERS.ordinal(match[1], match[2] in ("ª", "a", "ra", "da", "ta", "ma", "va", "na"))
    return re.sub(r"(primer|tercer)o$", r"\1", said) if match[2] == "er" else said


ORDINALS: list[Rule] = [
    rule(r"(?<![\w/])1/2 (?=([^\W\d_]+))", lambda m: "media " if LEXICON.gender_behind(1, m[1]) else "medio "),
    rule(r"\b[Nn](?:\.?\s?[º°]|[úu]m\.|o\.)\s?(?=[0-9])|#\s?(?=[0-9])|№\s?", "número "),
    rule(r"(?<![\w.,])([0-9]{1,4})\.?([ºª]|er|(?:r|d|t|m|v|n)[oa])(?!\w)", _ordinal),
]


def _king(value: int, _: str) -> str:
    return ordinal(value, False) if value <= 10 else alone(value)


_KINGS = "Alfonso|Carlos|Felipe|Fernando|Enrique|Juan|Pedro|Luis|Napoleón|Pío|León|Benedicto|Juan Pablo|Jorge|Eduardo"
_QUEENS = "Isabel|Catalina"
_COUNTED = "[Ss]iglos?|[Cc]apítulos?|[Tt]omos?|[Vv]olumen|[Tt]ítulo|[Aa]rtículo|[Ff]ase|[Pp]arte"

ROMAN: list[Rule] = [
    rule(rf"\b([Ss]iglos) ({NUMERAL}) ([ya]) ({NUMERAL})(?!\w)",
         lambda m: f"{m[1]} {alone(roman_value(m[2]))} {m[3]} {alone(roman_value(m[4]))}"),
    roman_after(_COUNTED, lambda value, _: alone(value)),
    roman_after(_KINGS, _king),
    roman_after(_QUEENS, lambda value, _: ordinal(value, True)),
]  # fmt: skip
