"""The French words for figures."""

from __future__ import annotations

import re

from num2words import num2words

from realtime.text.romance.lexicon import Currency, Lexicon, Noun

__all__ = ["LEXICON", "ordinal"]

_VOWEL = re.compile(r"[aeiouyàâäéèêëîïôöùûüœæh]", re.IGNORECASE)
"""An h too: words that aspirate it are few, and liaison is forgiven sooner than its lack."""


def alone(value: int) -> str:
    words: str = num2words(value, lang="fr")
    return words


def cardinal(value: int, is_feminine: bool) -> str:
    """Before a noun: "vingt et une minutes"."""
    return re.sub(r"\bun$", "une", alone(value)) if is_feminine else alone(value)


def ordinal(value: int, is_feminine: bool) -> str:
    if value == 1:
        return "première" if is_feminine else "premier"
    words: str = num2words(value, lang="fr", to="ordinal")
    return words


_NOT_COUNTED = frozenset(
    "a à au aux avec ce ces chez contre dans de des dès du elle en entre est et il la le les mais ne on ont ou où par "
    "pas plus pour que qui sans se si son sont sous sur un une vers y".split()
)
_FEMININE = frozenset(
    "heure minute seconde semaine année journée nuit personne page place chambre commande facture question réponse "
    "voiture table fois livre tonne bouteille tasse boîte carte lettre photo image ligne porte pièce rue ville fille "
    "femme étoile chaise station nuitée entrée idée voix tranche action option session mission".split()
)
_FEMININE_ENDINGS = ("tion", "tions", "sion", "sions", "ances", "ences", "ettes", "té", "tés", "ures")
_MASCULINE = frozenset("été étés côté côtés comité comités bastion bastions".split())


def _gender_behind(value: int, word: str) -> bool | None:
    """Gender shows in one, twenty-one … alone. A noun that is not known to be feminine is taken for a masculine one."""
    word = word.lower()
    if word in _NOT_COUNTED or (value > 1 and not word.endswith(("s", "x"))):
        return None
    if word in _MASCULINE:
        return False
    return word in _FEMININE or word.removesuffix("s") in _FEMININE or word.endswith(_FEMININE_ENDINGS)


_CENTIME = Noun("centime", "centimes")
_CENT = Noun("cent", "cents")

_CURRENCIES = {
    **dict.fromkeys(("€", "EUR"), Currency(Noun("euro", "euros"), _CENTIME)),
    **dict.fromkeys(("$", "USD", "US$", "$US"), Currency(Noun("dollar", "dollars"), _CENT)),
    **dict.fromkeys(("CAD", "CA$", "$CA"), Currency(Noun("dollar canadien", "dollars canadiens"), _CENT)),
    **dict.fromkeys(("£", "GBP"), Currency(Noun("livre", "livres", True), Noun("penny", "pence"))),
    **dict.fromkeys(("CHF",), Currency(Noun("franc suisse", "francs suisses"), _CENTIME)),
    **dict.fromkeys(("¥", "JPY"), Currency(Noun("yen", "yens"), None)),
    **dict.fromkeys(("FCFA", "XOF", "XAF"), Currency(Noun("franc CFA", "francs CFA"), None)),
    **dict.fromkeys(("₿", "BTC"), Currency(Noun("bitcoin", "bitcoins"), None)),
    "¢": Currency(_CENT, None),
}

_UNITS = {
    "mm": Noun("millimètre", "millimètres"), "cm": Noun("centimètre", "centimètres"), "m": Noun("mètre", "mètres"),
    "km": Noun("kilomètre", "kilomètres"), "mi": Noun("mile", "miles"), "ft": Noun("pied", "pieds"),
    "ha": Noun("hectare", "hectares"), "mg": Noun("milligramme", "milligrammes"), "g": Noun("gramme", "grammes"),
    "kg": Noun("kilo", "kilos"), "t": Noun("tonne", "tonnes", True), "lb": Noun("livre", "livres", True),
    "oz": Noun("once", "onces", True), "ml": Noun("millilitre", "millilitres"), "mL": Noun("millilitre", "millilitres"),
    "cl": Noun("centilitre", "centilitres"), "l": Noun("litre", "litres"), "L": Noun("litre", "litres"),
    "o": Noun("octet", "octets"), "ko": Noun("kilooctet", "kilooctets"), "Ko": Noun("kilooctet", "kilooctets"),
    "Mo": Noun("mégaoctet", "mégaoctets"), "Go": Noun("gigaoctet", "gigaoctets"), "To": Noun("téraoctet", "téraoctets"),
    "MB": Noun("mégaoctet", "mégaoctets"), "GB": Noun("gigaoctet", "gigaoctets"),
    "Mbit/s": Noun("mégabit par seconde", "mégabits par seconde"),
    "Mbps": Noun("mégabit par seconde", "mégabits par seconde"), "Hz": Noun("hertz", "hertz"),
    "kHz": Noun("kilohertz", "kilohertz"), "MHz": Noun("mégahertz", "mégahertz"), "GHz": Noun("gigahertz", "gigahertz"),
    "W": Noun("watt", "watts"), "kW": Noun("kilowatt", "kilowatts"), "kWh": Noun("kilowattheure", "kilowattheures"),
    "V": Noun("volt", "volts"), "dB": Noun("décibel", "décibels"), "kcal": Noun("kilocalorie", "kilocalories", True),
    "px": Noun("pixel", "pixels"), "ms": Noun("milliseconde", "millisecondes", True),
    "s": Noun("seconde", "secondes", True), "sec": Noun("seconde", "secondes", True),
    "min": Noun("minute", "minutes", True), "mn": Noun("minute", "minutes", True), "h": Noun("heure", "heures", True),
    "j": Noun("jour", "jours"), "°C": Noun("degré Celsius", "degrés Celsius"),
    "°F": Noun("degré Fahrenheit", "degrés Fahrenheit"), "°": Noun("degré", "degrés"),
    "hab": Noun("habitant", "habitants"),
}  # fmt: skip


def _of(noun: str) -> str:
    return f"d'{noun}" if _VOWEL.match(noun) else f"de {noun}"


LEXICON = Lexicon(
    cardinal=cardinal,
    alone=alone,
    ordinal=ordinal,
    is_plural=lambda amount: amount >= 2,
    of=_of,
    cents=lambda count, noun: count,
    gender_behind=_gender_behind,
    digits=("zéro", "un", "deux", "trois", "quatre", "cinq", "six", "sept", "huit", "neuf"),
    comma="virgule",
    point="point",
    negative="moins",
    range="à",
    percent="pour cent",
    per_thousand="pour mille",
    half="un demi",
    and_half="et demi",
    parts={
        3: Noun("tiers", "tiers"), 4: Noun("quart", "quarts"), 5: Noun("cinquième", "cinquièmes"),
        6: Noun("sixième", "sixièmes"), 7: Noun("septième", "septièmes"), 8: Noun("huitième", "huitièmes"),
        9: Noun("neuvième", "neuvièmes"), 10: Noun("dixième", "dixièmes"), 100: Noun("centième", "centièmes"),
    },
    over="sur",
    by="par",
    product="fois",
    factor="fois",
    divided="divisé par",
    plus_minus="plus ou moins",
    power="puissance",
    about="environ",
    per="par",
    millions=("million", "millions", "milliard", "milliards", "billion", "billions"),
    months=tuple("janvier février mars avril mai juin juillet août septembre octobre novembre décembre".split()),
    short_months={
        "janv": 1, "jan": 1, "févr": 2, "fév": 2, "avr": 4, "juil": 7, "sept": 9, "oct": 10, "nov": 11, "déc": 12,
        "fevrier": 2, "aout": 8, "decembre": 12,
    },
    first_of_month="premier",
    month_join=" ",
    day_words="[Ll]e|[Dd]u|[Aa]u|[Dd]ès le|[Jj]usqu'au",
    currencies=_CURRENCIES,
    scales={
        "k": 10**3, "K": 10**3, "mille": 10**3, "M": 10**6, "million": 10**6, "millions": 10**6, "millions d'": 10**6,
        "Md": 10**9, "Mds": 10**9, "milliard": 10**9, "milliards": 10**9,
    },
    units=_UNITS,
    powers={"²": "carré", "³": "cube"},
    per_units={
        "s": "seconde", "sec": "seconde", "min": "minute", "h": "heure", "kg": "kilo", "l": "litre", "L": "litre",
        "km": "kilomètre", "m": "mètre", "ha": "hectare", "Go": "gigaoctet", "m²": "mètre carré", "j": "jour",
        "pers": "personne",
        **{name: name for name in ("seconde", "minute", "heure", "jour", "nuit", "semaine", "mois", "an", "personne",
                                   "utilisateur", "kilo", "litre", "mètre")},
    },
)  # fmt: skip
