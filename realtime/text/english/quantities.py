"""Amounts as they are spoken: money, percentages, measures, fractions, ranges, sums, codes, plain numbers."""

from __future__ import annotations

import re

from realtime.text.english.numbers import (
    cardinal,
    decade,
    decimal,
    digits,
    fraction,
    money,
    number,
    ordinal,
    plural,
    year,
)
from realtime.text.rules import Rule, rule

__all__ = ["QUANTITIES"]

_NUMBER = r"(?:(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]+)?|\.[0-9]+)"
_START = r"(?<![\w.,])"

_SCALES = {"k": "thousand", "K": "thousand", "M": "million", "mn": "million", "bn": "billion", "B": "billion"} | {
    name: name for name in ("hundred", "thousand", "million", "billion", "trillion")
}
_SCALE = "|".join(sorted(_SCALES, key=len, reverse=True))
_ORIGINS = {"US": "US", "A": "Australian", "AU": "Australian", "C": "Canadian", "CA": "Canadian",
            "NZ": "New Zealand", "HK": "Hong Kong", "S": "Singapore"}  # fmt: skip
_CODES = {"USD": "$", "EUR": "€", "GBP": "£", "JPY": "¥", "INR": "₹", "KRW": "₩", "BTC": "₿"}
_CODE = "|".join(_CODES)
_SYMBOL = "[$€£¥₹₩₿]"

# One, several.
_UNITS = {
    "mm": ("millimeter", "millimeters"), "cm": ("centimeter", "centimeters"), "m": ("meter", "meters"),
    "km": ("kilometer", "kilometers"), "ft": ("foot", "feet"), "yd": ("yard", "yards"), "mi": ("mile", "miles"),
    "mg": ("milligram", "milligrams"), "g": ("gram", "grams"), "kg": ("kilogram", "kilograms"),
    "lb": ("pound", "pounds"), "lbs": ("pound", "pounds"), "oz": ("ounce", "ounces"),
    "ml": ("milliliter", "milliliters"), "mL": ("milliliter", "milliliters"), "L": ("liter", "liters"),
    "KB": ("kilobyte", "kilobytes"), "kB": ("kilobyte", "kilobytes"), "MB": ("megabyte", "megabytes"),
    "GB": ("gigabyte", "gigabytes"), "TB": ("terabyte", "terabytes"),
    "kbps": ("kilobit per second", "kilobits per second"), "Mbps": ("megabit per second", "megabits per second"),
    "Gbps": ("gigabit per second", "gigabits per second"),
    "Hz": ("hertz", "hertz"), "kHz": ("kilohertz", "kilohertz"), "MHz": ("megahertz", "megahertz"),
    "GHz": ("gigahertz", "gigahertz"), "W": ("watt", "watts"), "kW": ("kilowatt", "kilowatts"),
    "kWh": ("kilowatt hour", "kilowatt hours"), "V": ("volt", "volts"), "mAh": ("milliamp hour", "milliamp hours"),
    "dB": ("decibel", "decibels"), "px": ("pixel", "pixels"), "fps": ("frame per second", "frames per second"),
    "kcal": ("kilocalorie", "kilocalories"), "mph": ("mile per hour", "miles per hour"),
    "ms": ("millisecond", "milliseconds"), "s": ("second", "seconds"), "sec": ("second", "seconds"),
    "secs": ("second", "seconds"), "min": ("minute", "minutes"), "mins": ("minute", "minutes"), "h": ("hour", "hours"),
    "hr": ("hour", "hours"), "hrs": ("hour", "hours"), "°C": ("degree Celsius", "degrees Celsius"),
    "°F": ("degree Fahrenheit", "degrees Fahrenheit"), "°": ("degree", "degrees"),
}  # fmt: skip
_PER = {"s": "second", "sec": "second", "min": "minute", "h": "hour", "hr": "hour", "wk": "week", "mo": "month",
        "yr": "year", "kg": "kilogram", "lb": "pound", "oz": "ounce", "gal": "gallon", "km": "kilometer", "m": "meter",
        "mi": "mile", "L": "liter", "GB": "gigabyte", "ft": "foot"} | {
    name: name for name in ("second", "minute", "hour", "day", "night", "week", "month", "year", "person", "user")
}  # fmt: skip
_UNIT = "|".join(re.escape(unit) for unit in sorted(_UNITS, key=len, reverse=True))
_PER_UNIT = "|".join(sorted(_PER, key=len, reverse=True))
_POWERS = {"²": "square ", "³": "cubic "}


def _per(name: str | None) -> str:
    return f" per {_PER[name]}" if name else ""


def _amount(match: re.Match[str]) -> str:
    origin, symbol, amount, scale, per = match.groups()
    return money(symbol, amount, _SCALES.get(scale, ""), _ORIGINS.get(origin, "")) + _per(per)


def _amount_by_code(match: re.Match[str]) -> str:
    code, amount = (match[1], match[2]) if match[1] else (match[4], match[3])
    return money(_CODES[code], amount)


def _measure(match: re.Match[str]) -> str:
    amount, unit, power, per = match.groups()
    one, several = _UNITS[unit]
    return f"{number(amount)} {_POWERS.get(power, '')}{one if amount == '1' else several}{_per(per)}"


def _digit_groups(match: re.Match[str]) -> str:
    """Telephone, account and card numbers: a breath between the groups."""
    return ", ".join(digits(group) for group in re.findall("[0-9]+", match[0]))


def _mixed(match: re.Match[str]) -> str:
    whole = cardinal(match[1])
    part = fraction(match[2], match[3])
    return f"{whole} and {'a half' if part == 'one half' else part}"


def _integer(match: re.Match[str]) -> str:
    text = match[0]
    if len(text) == 4 and "1100" <= text <= "2099" and text[1:] != "000":
        return year(text)
    # A number that long without separators is an identifier.
    return digits(text) if len(text) >= 9 and not text.endswith("000") else cardinal(text)


# Digits that belong together and are said one by one, a date apart.
_GROUPS: list[Rule] = [
    rule(r"(?<![\w.])(?:\+[0-9]{1,3}[ .-]?|1[ .-])?(?:\([0-9]{3}\)[ -]?|[0-9]{3}[ .-])[0-9]{3}[ .-][0-9]{4}(?![\w-])",
         _digit_groups),
    rule(r"(?<![\w.-])[0-9]{3}-[0-9]{4}(?![\w-])", _digit_groups),
    rule(r"(?<![\w.])\+[0-9]{1,3}(?:[ .-]?[0-9]{2,5}){2,5}(?![\w-])", _digit_groups),
    rule(r"(?<![\w.-])[0-9]{1,6}(?:-[0-9]{1,6}){2,7}(?![\w-])", _digit_groups),
    rule(r"(?<![\w.-])[0-9]{4}(?: [0-9]{4}){2,4}(?![\w-])", _digit_groups),
    rule(r"\b((?i:code|pin|passcode|zip|ext|extension|ending in)\.?(?:,| is| code|:)? )([0-9]{3,})(?![\w.,]*[0-9])",
         lambda m: m[1] + digits(m[2])),
]  # fmt: skip

_BETWEEN: list[Rule] = [
    rule(rf"({_SYMBOL})({_NUMBER})\s?[-–—]\s?\1?({_NUMBER})(?!\w?[-–—][0-9])", r"\2 to \1\3"),
    rule(r"(?<=[0-9])\s?[-−]\s?(?=[0-9][0-9.,]*\s?=)|(?<=[0-9])\s−\s?(?=[0-9])", " minus "),
    rule(rf"(?<=[0-9])((?:%|°[CF]?)?)\s?[-–—]\s?(?={_SYMBOL}?[0-9])", r"\1 to "),
    rule(rf"({_SYMBOL})\s?[-−](?=[0-9.])", r"minus \1"),
    rule(rf"(?<![\w.,)])[-−]\s?(?={_SYMBOL}?\.?[0-9])", "minus "),
    rule(r"(?<=\w)–(?=\w)", " to "),
    rule(r"(?<=[0-9])\s?÷\s?(?=[0-9])", " divided by "),
    rule(r"(?<=[0-9])\s?[x×]\s?(?=[0-9][0-9.]*\s?=)", " times "),
    rule(r"(?<=[0-9])\s?[x×]\s?(?=[0-9])", " by "),
    rule(r"(?<=[0-9])[x×](?!\w)", " times"),
    rule(r"\s?±\s?(?=[0-9])", " plus or minus "),
    rule(r"(?<=[0-9A-Za-z])\^(?=[0-9])", " to the power of "),
    rule(r"[~≈]\s?(?=[$€£¥₹]?[0-9])", "about "),
]

_AMOUNTS: list[Rule] = [
    rule(rf"(?:\b(US|AU|CA|NZ|HK|[ACS]))?({_SYMBOL})\s?({_NUMBER})(?:\s?({_SCALE})\b)?(?:\s?/\s?({_PER_UNIT})\b)?",
         _amount),
    rule(rf"{_START}({_NUMBER})\s?({_SYMBOL})(?![0-9])", lambda m: money(m[2], m[1])),
    rule(rf"\b({_CODE})\s?({_NUMBER})|{_START}({_NUMBER})\s?({_CODE})\b", _amount_by_code),
    rule(rf"{_START}({_NUMBER})\s?¢", lambda m: f"{number(m[1])} {'cent' if m[1] == '1' else 'cents'}"),
    rule(rf"{_START}({_NUMBER})\s?%", lambda m: f"{number(m[1])} percent"),
    rule(r"(?<![\w.])([0-9]{1,2})['′]\s?([0-9]{1,2})(?:\"|″|'')",
         lambda m: f"{cardinal(m[1])} {'foot' if m[1] == '1' else 'feet'} {cardinal(m[2])}"),
    rule(r"(?<![\w.])['’]?([0-9]{2}0|[1-9]0|(?:1[1-9]|20)[0-9]0)['’]?s\b", lambda m: decade(m[1])),
    rule(r"(?:(?<![\w.,])(?=[0-9]{3})|(?<=[A-Za-z])-)([0-9]+)s\b", lambda m: f" {plural(cardinal(m[1]))}"),
    rule(rf"{_START}({_NUMBER})\s?({_UNIT})([²³]?)(?:/({_PER_UNIT}))?(?!\w|/\w)", _measure),
    rule(rf"{_START}({_NUMBER})(k|bn|mn|M)\b", lambda m: f"{number(m[1])} {_SCALES[m[2]]}"),
    rule(r"\b([0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:st|nd|rd|th)\b", lambda m: ordinal(m[1])),
    rule(r"(?<![\w/])24/7(?![\w/])", "twenty four seven"),
    rule(r"(?<![\w/.,])([0-9]{1,3}) ([1-9])/([1-9][0-9]?)(?![\w/])", _mixed),
    rule(r"(?<![\w/])([0-9]{1,4})/([0-9]{1,4})(?![\w/])", lambda m: fraction(m[1], m[2])),
]  # fmt: skip

_PLAIN: list[Rule] = [
    rule(r"\b[Nn]o\.\s?(?=[0-9])|#\s?(?=[0-9])|№\s?", "number "),
    rule(r"(?<=[A-Za-z])-?(?=[0-9])|(?<=[0-9])-?(?=[A-Za-z])", " "),
    rule(r"[0-9]{1,3}(?:,[0-9]{3})+\.[0-9]+|[0-9]+(?:\.[0-9]+)+", lambda m: decimal(m[0])),
    rule(r"(?<![\w.])\.([0-9]+)", lambda m: decimal(m[0])),
    rule(r"[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])", lambda m: cardinal(m[0])),
    rule(r"[0-9]+", _integer),
]

QUANTITIES: list[Rule] = [*_GROUPS, *_BETWEEN, *_AMOUNTS, *_PLAIN]
