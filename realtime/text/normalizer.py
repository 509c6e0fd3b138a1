"""Written English -> what is said. Pure and total: any string in, a speakable string out (maybe an empty one).

| written | spoken |
|---|---|
| `<|…|>`, `<tags>`, `[cues]` | removed (the bundled voice knows none) |
| `**bold**`, `_it_`, `` `code` ``, `# heading`, bullets, quotes, tables | the text without the marks |
| `[label](link)` | label |
| https://a.example/b_c?x=1 | a dot example slash b c |
| me@a.example | me at a dot example |
| $4.75, £3 million, 99¢ | four dollars and seventy five cents, three million pounds, ninety nine cents |
| 3:15 pm, 15:30, 9 a.m. | three fifteen PM, fifteen thirty, nine AM |
| 2026-03-14, March 14, 3/14/2026 | March fourteenth, twenty twenty six … |
| 50%, 20 km, 5°C, 3 GB | fifty percent, twenty kilometers, five degrees Celsius, three gigabytes |
| 1st, 1/2, 3-5, -7 | first, one half, three to five, minus seven |
| 555-0100, (555) 010-0100, 007 | digit by digit |
| 1999, 1,204, 3.14, 2.1.1 | nineteen ninety nine, one thousand two hundred and four, three point one four, … |
| Dr., e.g., etc., No. 5 | Doctor, for example, et cetera, number five |
| &, +, =, @, # 5, ~5 | and, plus, equals, at, number five, about five |
| emoji and other symbols | removed |
| curly quotes, repeated marks, dashes | straight quotes, one mark, a comma |

Other scripts pass through unchanged but for the symbols.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

from realtime.text.numbers import cardinal, decimal, digits, money, ordinal, year

__all__ = ["normalize"]

Rule = tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]


def _rule(pattern: str, replacement: str | Callable[[re.Match[str]], str], flags: int = 0) -> Rule:
    return re.compile(pattern, flags), replacement


_MONTHS = "January February March April May June July August September October November December".split()
_MONTH = "|".join([*_MONTHS, r"Sept\.", *(m[:3] + r"\." for m in _MONTHS)])
_NUMBER = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?"
_SCALES = r"hundred|thousand|million|billion|trillion"

_UNITS = {
    "km/h": "kilometers per hour", "mph": "miles per hour", "km": "kilometers", "cm": "centimeters",
    "mm": "millimeters", "kg": "kilograms", "mg": "milligrams", "lbs": "pounds", "lb": "pounds", "oz": "ounces",
    "ft": "feet", "ml": "milliliters", "GB": "gigabytes", "MB": "megabytes", "KB": "kilobytes", "TB": "terabytes",
    "GHz": "gigahertz", "MHz": "megahertz", "kHz": "kilohertz", "Hz": "hertz", "kW": "kilowatts", "ms": "milliseconds",
    "°C": "degrees Celsius", "°F": "degrees Fahrenheit", "°": "degrees", "min": "minutes", "hrs": "hours",
    "m": "meters", "g": "grams", "h": "hours",
}  # fmt: skip
_UNIT = "|".join(re.escape(unit) for unit in sorted(_UNITS, key=len, reverse=True))

_ABBREVIATIONS = {
    r"Dr\.": "Doctor", r"Mr\.": "Mister", r"Mrs\.": "Missus", r"Ms\.": "Miss", r"Prof\.": "Professor",
    r"Jr\.": "Junior", r"Sr\.": "Senior", r"e\.g\.,?": "for example,", r"i\.e\.,?": "that is,", r"etc\.": "et cetera",
    r"vs\.?": "versus", r"approx\.": "approximately", r"dept\.": "department", r"Inc\.": "Incorporated",
    r"Ltd\.": "Limited", r"Ave\.": "Avenue", r"Blvd\.": "Boulevard", r"St\.(?=\s+[A-Z])": "Saint", r"St\.": "Street",
}  # fmt: skip

_FRACTIONS = {"1/2": "one half", "1/3": "one third", "2/3": "two thirds", "1/4": "one quarter", "3/4": "three quarters"}


def _spoken_number(text: str) -> str:
    return decimal(text) if "." in text else cardinal(text)


def _url(match: re.Match[str]) -> str:
    address = re.sub(r"^(?:https?://)?(?:www\.)?", "", match.group().rstrip(".,;:!?)'\""), flags=re.IGNORECASE)
    tail = match.group()[len(match.group().rstrip(".,;:!?)'\"")) :]
    address = address.split("?")[0].split("#")[0].rstrip("/")
    spoken = re.sub(r"[_\-%=&~+]+", " ", address).replace(".", " dot ").replace("/", " slash ").replace(":", " ")
    return f" {spoken}{tail} "


def _email(match: re.Match[str]) -> str:
    user, host = match.group().split("@")
    return f" {re.sub('[._+-]+', ' dot ', user)} at {host.replace('.', ' dot ')} "


def _time(match: re.Match[str]) -> str:
    hour, minute, half = match.group(1), match.group(2), match.group(3)
    spoken = cardinal(str(int(hour)))
    if minute and minute != "00":
        spoken += f" oh {cardinal(minute[1])}" if minute[0] == "0" else f" {cardinal(minute)}"
    elif minute and not half:
        spoken += " o'clock" if 1 <= int(hour) <= 12 else " hundred"
    return spoken + (f" {half[0].upper()}M" if half else "")


def _date(month: int, day: str, years: str | None) -> str:
    spoken = f"{_MONTHS[month - 1]} {ordinal(str(int(day)))}"
    return f"{spoken}, {year(years)}" if years else spoken


def _iso_date(match: re.Match[str]) -> str:
    if 1 <= int(match.group(2)) <= 12 and 1 <= int(match.group(3)) <= 31:
        return _date(int(match.group(2)), match.group(3), match.group(1))
    return match.group()


def _us_date(match: re.Match[str]) -> str:
    if 1 <= int(match.group(1)) <= 12 and 1 <= int(match.group(2)) <= 31:
        return _date(int(match.group(1)), match.group(2), match.group(3))
    return match.group()


def _month_day(match: re.Match[str]) -> str:
    month = next(i for i, name in enumerate(_MONTHS, 1) if name.startswith(match.group(1)[:3]))
    return _date(month, match.group(2), match.group(3))


def _money(match: re.Match[str]) -> str:
    symbol, amount, scale = match.group(1), match.group(2), match.group(3)
    if scale:
        return f"{_spoken_number(amount)} {scale} {money(symbol, '2').split(' ', 1)[1]}"
    return money(symbol, amount)


def _unit(match: re.Match[str]) -> str:
    name = _UNITS[match.group(2)]
    if match.group(1) == "1":
        name = {"feet": "foot", "hertz": "hertz"}.get(name, re.sub(r"s(?= |$)", "", name, count=1))
    return f"{_spoken_number(match.group(1))} {name}"


def _fraction(match: re.Match[str]) -> str:
    return _FRACTIONS.get(match.group(), f"{cardinal(match.group(1))} over {cardinal(match.group(2))}")


def _whole(match: re.Match[str]) -> str:
    text = match.group()
    return year(text) if len(text) == 4 and "1100" <= text <= "2099" and text[1:] != "000" else cardinal(text)


_MARKUP: list[Rule] = [
    _rule(r"<\|[^|>]{0,80}\|>", " "),
    _rule(r"!?\[([^\]\n]*)\]\([^)\s]*\)", r"\1"),
    _rule(r"</?[A-Za-z!][^<>]{0,200}>", " "),
    _rule(r"\[[^\[\]]{0,200}\]", " "),
    _rule(r"^\s*(?:```\w*|~~~\w*)\s*$", " ", re.MULTILINE),
    _rule(r"^\s{0,3}(?:#{1,6}\s+|>\s?|[-*+•]\s+)", "", re.MULTILINE),
    _rule(r"^\s*\|?(?:\s*:?-{3,}:?\s*\|?)+\s*$", " ", re.MULTILINE),
    _rule(r"\s*\|\s*", ", "),
    _rule(r"\*+|`+|~~+", ""),
    _rule(r"(?<![A-Za-z0-9])_+(?=\S)|(?<=\S)_+(?![A-Za-z0-9])", ""),
]

_ADDRESSES: list[Rule] = [
    _rule(r"[A-Za-z0-9._+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+", _email),
    _rule(r"(?:https?://|www\.)[^\s<>]+", _url, re.IGNORECASE),
    _rule(r"\b[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.(?:com|org|net|io|ai|dev|example)(?:/[^\s<>]*)?(?![\w.]\w)", _url),
]

_NUMBERS: list[Rule] = [
    _rule(rf"([$€£¥₹])\s?({_NUMBER})(?:\s?({_SCALES})\b)?", _money),
    _rule(rf"({_NUMBER})\s?¢", lambda m: f"{_spoken_number(m[1])} cents"),
    _rule(r"\b(\d{4})-(\d{2})-(\d{2})\b", _iso_date),
    _rule(r"\b(\d{1,2})/(\d{1,2})/(\d{4})\b", _us_date),
    _rule(rf"\b({_MONTH})\s+(\d{{1,2}})(?:st|nd|rd|th)?(?:,?\s+(\d{{4}}))?\b(?![:\d])", _month_day),
    _rule(r"\b([01]?\d|2[0-3]):([0-5]\d)(?:\s?([AaPp])\.?[Mm]\b\.?)?", _time),
    _rule(r"\b(1[0-2]|0?[1-9])()\s?([AaPp])\.?[Mm]\b\.?", _time),
    _rule(r"(?<![\w.])(?:\+\d{1,3}[\s-])?(?:\(\d{3}\)\s?|\d{3}-)?\d{3}-\d{4}\b", lambda m: digits(m.group())),
    _rule(r"\b(\d+)(?:st|nd|rd|th)\b", lambda m: ordinal(m[1])),
    _rule(rf"({_NUMBER})\s?%", lambda m: f"{_spoken_number(m[1])} percent"),
    _rule(rf"(?<![\w.])({_NUMBER})\s?({_UNIT})(?![\w])", _unit),
    _rule(r"(?<![\w/])(\d{1,4})/(\d{1,4})(?![\w/])", _fraction),
    _rule(r"(?<=\d)\s?[–-]\s?(?=\d)", " to "),
    _rule(r"(?<![\w.)])[-−](?=\d)", "minus "),
    _rule(r"\b[Nn]o\.\s?(?=\d)|#\s?(?=\d)", "number "),
    _rule(r"~\s?(?=\d)", "about "),
    _rule(r"(?<=[A-Za-z])(?=\d)|(?<=\d)(?=[A-Za-z])", " "),
    _rule(r"\d{1,3}(?:,\d{3})+\.\d+|\d+(?:\.\d+)+", lambda m: decimal(m.group())),
    _rule(r"\d{1,3}(?:,\d{3})+", lambda m: cardinal(m.group())),
    _rule(r"[0-9]+", _whole),
]

_WORDS: list[Rule] = [
    *(_rule(rf"\b{pattern}(?!\w)", word) for pattern, word in _ABBREVIATIONS.items()),
    _rule(r"\s*&\s*", " and "),
    _rule(r"\s*\+\s*", " plus "),
    _rule(r"\s*=\s*", " equals "),
    _rule(r"(?<=\w)\s*@\s*(?=\w)", " at "),
    _rule(r"(?<=\w)/(?=\w)", " "),
]

_TYPOGRAPHY = str.maketrans(
    {
        "‘": "'",
        "’": "'",
        "“": '"',
        "”": '"',
        "„": '"',
        "«": '"',
        "»": '"',
        "—": ", ",
        "–": ", ",
        "…": "...",
        "\u00a0": " ",
    }
)

_TIDY: list[Rule] = [
    _rule(r"\s+([,.;:!?])", r"\1"),
    _rule(r"([,;:])[\s,;:]*(?=[,;:.!?])", ""),
    _rule(r"([!?,;:])\1+", r"\1"),
    _rule(r"\.{2,}", "..."),
    _rule(r"(^|\s)[,;:\-]+(?=\s|$)", r"\1"),
    _rule(r"\s+", " "),
]

# Symbols with a meaning of their own here; the rules above consumed them where they mean something.
_SPOKEN_SYMBOLS = frozenset("$€£¥₹¢°%&+=@#~")


def normalize(text: str) -> str:
    """Text as the model should read it. Never raises; the result holds none of * # ` _ and no control characters."""
    text = unicodedata.normalize("NFC", text.encode("utf-8", "replace").decode())
    for fraction, name in (("½", "1/2"), ("⅓", "1/3"), ("⅔", "2/3"), ("¼", "1/4"), ("¾", "3/4")):
        text = text.replace(fraction, f" {name}")
    text = _apply(_MARKUP, text)
    text = _apply(_ADDRESSES, text).translate(_TYPOGRAPHY if not re.search(r"\d[–—]\d", text) else _keep_ranges())
    text = _apply(_NUMBERS, text)
    text = _apply(_WORDS, text)
    text = "".join(char if _is_kept(char) else " " for char in text)
    return _apply(_TIDY, text).strip()


def _keep_ranges() -> dict[int, str]:
    """Typography that leaves dashes to the rule for number ranges."""
    return {key: value for key, value in _TYPOGRAPHY.items() if chr(key) not in "–—"}


def _apply(rules: list[Rule], text: str) -> str:
    for pattern, replacement in rules:
        text = pattern.sub(replacement, text)
    return text


def _is_kept(char: str) -> bool:
    """Letters, marks, digits, spaces and ordinary punctuation of any script; no symbols, no control characters."""
    if char in "*#`_|\\^~<>[]{}" or char in _SPOKEN_SYMBOLS:
        return False
    return unicodedata.category(char)[0] in "LMNPZ" or char in "\n\t"
