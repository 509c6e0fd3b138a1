"""Amounts: money, percentages, measures, ranges, sums, counts, plain numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable

from realtime.text.romance.lexicon import Lexicon, Noun
from realtime.text.romance.numbers import NUMBER, START, Numbers
from realtime.text.rules import Rule, rule

__all__ = ["amounts"]


def amounts(lexicon: Lexicon) -> list[Rule]:
    """Expects dates, times and telephone numbers to be words already, and groups of thousands to be set."""
    numbers = Numbers(lexicon)
    return [*_between(lexicon), *_money(lexicon, numbers), *_measures(lexicon, numbers), *_plain(lexicon, numbers)]


def _alternatives(names: Iterable[str]) -> str:
    return "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))


def _between(lexicon: Lexicon) -> list[Rule]:
    symbol = f"(?:{_alternatives(name for name in lexicon.currencies if not name.isalpha())})"
    return [
        rule(r"(?<=[0-9])\s?[-−]\s?(?=[0-9][0-9.,]*\s?=)|(?<=[0-9])\s−\s?(?=[0-9])", f" {lexicon.negative} "),
        rule(rf"(?<=[0-9])(\s?(?:%|‰|°C?|{symbol})?)\s?[-–—]\s?(?={symbol}?[0-9])", rf"\1 {lexicon.range} "),
        rule(rf"({symbol})\s?[-−](?=[0-9])", rf"{lexicon.negative} \1"),
        rule(rf"(?<![\w.,)])[-−]\s?(?={symbol}?[0-9])", f"{lexicon.negative} "),
        rule(r"(?<=[0-9])\s?÷\s?(?=[0-9])", f" {lexicon.divided} "),
        rule(r"(?<=[0-9])\s?[x×]\s?(?=[0-9][0-9.,]*\s?=)", f" {lexicon.product} "),
        rule(r"(?<=[0-9])\s?[x×]\s?(?=[0-9])", f" {lexicon.by} "),
        rule(r"\s?±\s?(?=[0-9])", f" {lexicon.plus_minus} "),
        rule(r"(?<=[0-9A-Za-z])\^(?=[0-9])", f" {lexicon.power} "),
        rule(rf"[~≈]\s?(?={symbol}?[0-9])", f"{lexicon.about} "),
    ]


def _money(lexicon: Lexicon, numbers: Numbers) -> list[Rule]:
    name = _alternatives(lexicon.currencies)
    scale = _alternatives(lexicon.scales)
    per = _alternatives(lexicon.per_units)

    def counted(amount: str, noun: Noun) -> str:
        said = numbers.counting(amount, noun.is_feminine)
        if said.endswith(lexicon.millions):
            return f"{said} {lexicon.of(noun.many)}"
        return f"{said} {noun.many if numbers.is_plural(amount) else noun.one}"

    def money(amount: str, scaled: str | None, code: str, per_unit: str | None) -> str:
        currency = lexicon.currencies[code]
        per_said = f" {lexicon.per} {lexicon.per_units[per_unit]}" if per_unit else ""
        if scaled:
            said = _scaled(lexicon, numbers, amount, scaled)
            joined = lexicon.of(currency.unit.many) if said.endswith(lexicon.millions) else currency.unit.many
            return f"{said} {joined}{per_said}"
        whole, _, minor = re.sub(r"[.,]", "|", amount).partition("|")
        if minor and (currency.cent is None or len(minor) != 2):
            return counted(amount, currency.unit) + per_said
        if not minor or int(minor) == 0:
            return counted(whole, currency.unit) + per_said
        assert currency.cent is not None, "seen above"
        value = str(int(minor))
        count = numbers.counting(value, currency.cent.is_feminine)
        noun = currency.cent.many if numbers.is_plural(value) else currency.cent.one
        if int(whole.replace("\u2009", "")) == 0:
            return f"{count} {noun}{per_said}"
        return f"{counted(whole, currency.unit)} {lexicon.cents(count, noun)}{per_said}"

    return [
        rule(rf"{START}({NUMBER})\s?(?:({scale})\s?)?({name})(?:\s?/\s?({per}))?(?!\w)",
             lambda m: money(m[1], m[2], m[3], m[4])),
        rule(rf"(?<!\w)({name})\s?({NUMBER})(?:\s?({scale})\b)?(?:\s?/\s?({per})\b)?",
             lambda m: money(m[2], m[3], m[1], m[4])),
    ]  # fmt: skip


def _scaled(lexicon: Lexicon, numbers: Numbers, amount: str, scale: str) -> str:
    """Whole amounts are multiplied out ("20 k": twenty thousand), others keep their scale ("1,5 millones")."""
    value = lexicon.scales[scale]
    bare = amount.replace("\u2009", "")
    if bare.isdigit() and len(bare) <= 6:
        return lexicon.cardinal(int(bare) * value, False)
    name = lexicon.cardinal(
        value * (2 if numbers.is_plural(amount) else 1), False
    )  # "dos millones", "un million", "mil"
    return f"{numbers.counting(amount, False)} {name.split(maxsplit=1)[-1]}"


def _measures(lexicon: Lexicon, numbers: Numbers) -> list[Rule]:
    unit, per = _alternatives(lexicon.units), _alternatives(lexicon.per_units)
    scale = _alternatives(lexicon.scales.keys() & {"k", "M", "Md"})  # not K: "4K" is a name

    def measure(match: re.Match[str]) -> str:
        amount, name, power, per_unit = match.groups()
        noun = lexicon.units[name]
        said = numbers.counting(amount, noun.is_feminine)
        is_plural = numbers.is_plural(amount)
        unit_said = noun.many if is_plural else noun.one
        if power:
            adjective = lexicon.powers[power]
            unit_said += f" {adjective}{'s' if is_plural else ''}"
        if said.endswith(lexicon.millions):
            unit_said = lexicon.of(unit_said)
        return f"{said} {unit_said}" + (f" {lexicon.per} {lexicon.per_units[per_unit]}" if per_unit else "")

    return [
        rule(rf"{START}({NUMBER})\s?%", lambda m: f"{numbers.counting(m[1], False)} {lexicon.percent}"),
        rule(rf"{START}({NUMBER})\s?‰", lambda m: f"{numbers.counting(m[1], False)} {lexicon.per_thousand}"),
        rule(rf"{START}({NUMBER})\s?({unit})([²³]?)(?:/({per}))?(?!\w|/\w)", measure),
        rule(rf"{START}({NUMBER})\s?({scale})(?!\w)", lambda m: _scaled(lexicon, numbers, m[1], m[2])),
        rule(r"(?<=[0-9])[x×](?!\w)", f" {lexicon.factor}"),
        rule(r"(?<![\w/.,])([0-9]{1,3}) ([1-9])/([1-9][0-9]?)(?![\w/])", lambda m: numbers.mixed(m[1], m[2], m[3])),
        rule(r"(?<![\w/])([0-9]{1,4})/([0-9]{1,4})(?![\w/])", lambda m: numbers.fraction(m[1], m[2])),
    ]


def _plain(lexicon: Lexicon, numbers: Numbers) -> list[Rule]:

    def counting(match: re.Match[str]) -> str:
        """A number and the word behind it, which tells the number's gender if it can be what is counted."""
        amount, noun = match.groups()
        is_feminine = lexicon.gender_behind(int(amount.replace("\u2009", "")), noun)
        if is_feminine is None:
            return f"{numbers.alone(amount)} {noun}"
        said = numbers.counting(amount, is_feminine)
        return f"{said} {lexicon.of(noun) if said.endswith(lexicon.millions) else noun}"

    return [
        rule(r"(?<=[0-9]):(?=[0-9])", f" {lexicon.range} "),
        rule(r"(?<=[^\W\d_])-?(?=[0-9])|(?<=[0-9])-?(?=[^\W\d_])", " "),
        rule(r"(?<![\w.,])[0-9]+(?:,[0-9]+){2,}", lambda m: m[0].replace(",", ", ")),
        rule(r"[0-9]+(?:\.[0-9]+){2,}", lambda m: numbers.version(m[0])),
        rule(r"[0-9]{1,3}(?:\u2009[0-9]{3})+[.,][0-9]+|[0-9]+[.,][0-9]+", lambda m: numbers.decimal(m[0])),
        rule(r"(?<![\w.,])[.,]([0-9]+)", lambda m: numbers.decimal(m[0])),
        rule(r"(?<![0-9\u2009])([0-9]{1,3}(?:\u2009[0-9]{3})+|[0-9]{1,8})\s([^\W\d_]+)", counting),
        rule(r"[0-9]{1,3}(?:\u2009[0-9]{3})+(?![0-9])", lambda m: numbers.alone(m[0])),
        rule(r"[0-9]+", lambda m: _integer(numbers, m[0])),
    ]


def _integer(numbers: Numbers, text: str) -> str:
    """A number that long without separators is an identifier."""
    is_code = len(text) >= 9 and "\u2009" not in text and not text.endswith("000")
    return numbers.digits(text) if is_code else numbers.alone(text)
