"""The Spanish words for figures."""

from __future__ import annotations

import re

from num2words import num2words

from realtime.text.romance.lexicon import Currency, Lexicon, Noun

__all__ = ["LEXICON", "ordinal"]

# Where num2words counts on as if nothing followed: 21.000, 201.000.000.
_BEFORE_THOUSANDS = re.compile(r"(veinti)?uno(?= (?:mil|millones|billones)\b)")
_HUNDREDS = re.compile(r"(cientos|quinientos)(?!.*\b(?:millón|millones|billón|billones)\b)")
_MASCULINE_ONE = re.compile(r"(veinti)?uno$")
_FEMININE_ONE = re.compile(r"uno$")

_TEENS = {11: "undécimo", 12: "duodécimo"}
_MAX_ORDINAL = 99
"""Beyond, Spanish says the cardinal."""


def alone(value: int) -> str:
    return _BEFORE_THOUSANDS.sub(lambda m: "veintiún" if m[1] else "un", num2words(value, lang="es"))


def cardinal(value: int, is_feminine: bool) -> str:
    """Before a noun: "veintiún euros", "doscientas una libras". Thousands agree with it, millions do not."""
    words = alone(value)
    if not is_feminine:
        return _MASCULINE_ONE.sub(lambda m: "veintiún" if m[1] else "un", words)
    return _HUNDREDS.sub(lambda m: m[1].replace("os", "as"), _FEMININE_ONE.sub("una", words))


def ordinal(value: int, is_feminine: bool) -> str:
    if value > _MAX_ORDINAL:
        return alone(value)
    words = _TEENS.get(value) or num2words(value, lang="es", to="ordinal")
    return re.sub(r"o\b", "a", words) if is_feminine else words


_NOT_COUNTED = frozenset(
    "a al ante bajo con contra de del desde e en entre es hacia hasta las los más menos mas nos o para por que se "
    "según si sin sobre son tras u y ya".split()
)
_ONE_OF = {
    noun: is_feminine
    for is_feminine, nouns in (
        (False, "minuto segundo día mes año siglo euro dólar peso kilo litro metro kilómetro grado punto millón "
                "mensaje pedido producto artículo paquete billete asiento adulto niño piso correo archivo voto gol"),
        (True, "hora semana noche vez persona página habitación mesa libra tonelada copia cita llamada reserva entrada "
               "unidad pieza caja botella taza cucharada plaza cama milla pulgada opción falta hija"),
    )
    for noun in nouns.split()
}  # fmt: skip
_FEMININE_ENDINGS = ("as", "iones", "dades", "tades", "tudes", "noches", "veces", "clases", "calles", "partes",
                     "tardes", "llaves", "mujeres", "imágenes", "fotos", "motos", "manos", "redes", "voces",
                     "leyes")  # fmt: skip
_MASCULINE_ENDINGS = ("días", "mapas", "emas", "amas", "omas", "planetas", "cometas", "tranvías", "aviones", "camiones",
                      "millones", "corazones", "guiones", "gorriones")  # fmt: skip


def _gender_behind(value: int, word: str) -> bool | None:
    """One takes a noun that is known to be counted ("la línea 1 sale"), more take any plural."""
    word = word.lower()
    if value == 1:
        return _ONE_OF.get(word)
    if word in _NOT_COUNTED or not word.endswith("s"):
        return None
    return word.endswith(_FEMININE_ENDINGS) and not word.endswith(_MASCULINE_ENDINGS)


_CENT = Noun("céntimo", "céntimos")
_CENTAVO = Noun("centavo", "centavos")

_CURRENCIES = {
    **dict.fromkeys(("€", "EUR"), Currency(Noun("euro", "euros"), _CENT)),
    **dict.fromkeys(("$", "USD", "US$"), Currency(Noun("dólar", "dólares"), _CENTAVO)),
    **dict.fromkeys(("MXN", "MX$"), Currency(Noun("peso mexicano", "pesos mexicanos"), _CENTAVO)),
    **dict.fromkeys(("ARS", "AR$"), Currency(Noun("peso argentino", "pesos argentinos"), _CENTAVO)),
    **dict.fromkeys(("CLP", "CL$"), Currency(Noun("peso chileno", "pesos chilenos"), None)),
    **dict.fromkeys(("COP", "COL$"), Currency(Noun("peso colombiano", "pesos colombianos"), _CENTAVO)),
    **dict.fromkeys(("PEN", "S/"), Currency(Noun("sol", "soles"), _CENT)),
    **dict.fromkeys(("£", "GBP"), Currency(Noun("libra", "libras", True), Noun("penique", "peniques"))),
    **dict.fromkeys(("¥", "JPY"), Currency(Noun("yen", "yenes"), None)),
    **dict.fromkeys(("CHF",), Currency(Noun("franco suizo", "francos suizos"), _CENT)),
    **dict.fromkeys(("₿", "BTC"), Currency(Noun("bitcoin", "bitcoins"), None)),
    "¢": Currency(_CENTAVO, None),
}

_UNITS = {
    "mm": Noun("milímetro", "milímetros"), "cm": Noun("centímetro", "centímetros"), "m": Noun("metro", "metros"),
    "km": Noun("kilómetro", "kilómetros"), "mi": Noun("milla", "millas", True), "ft": Noun("pie", "pies"),
    "ha": Noun("hectárea", "hectáreas", True), "mg": Noun("miligramo", "miligramos"), "g": Noun("gramo", "gramos"),
    "kg": Noun("kilo", "kilos"), "t": Noun("tonelada", "toneladas", True), "lb": Noun("libra", "libras", True),
    "oz": Noun("onza", "onzas", True), "ml": Noun("mililitro", "mililitros"), "cl": Noun("centilitro", "centilitros"),
    "l": Noun("litro", "litros"), "L": Noun("litro", "litros"), "kB": Noun("kilobyte", "kilobytes"),
    "KB": Noun("kilobyte", "kilobytes"), "MB": Noun("megabyte", "megabytes"), "GB": Noun("gigabyte", "gigabytes"),
    "TB": Noun("terabyte", "terabytes"), "Mbps": Noun("megabit por segundo", "megabits por segundo"),
    "Hz": Noun("hercio", "hercios"), "kHz": Noun("kilohercio", "kilohercios"), "MHz": Noun("megahercio", "megahercios"),
    "GHz": Noun("gigahercio", "gigahercios"), "W": Noun("vatio", "vatios"), "kW": Noun("kilovatio", "kilovatios"),
    "kWh": Noun("kilovatio hora", "kilovatios hora"), "V": Noun("voltio", "voltios"),
    "dB": Noun("decibelio", "decibelios"),
    "kcal": Noun("kilocaloría", "kilocalorías", True), "px": Noun("píxel", "píxeles"),
    "mph": Noun("milla por hora", "millas por hora", True), "ms": Noun("milisegundo", "milisegundos"),
    "s": Noun("segundo", "segundos"), "seg": Noun("segundo", "segundos"), "min": Noun("minuto", "minutos"),
    "h": Noun("hora", "horas", True), "hs": Noun("hora", "horas", True), "hrs": Noun("hora", "horas", True),
    "°C": Noun("grado Celsius", "grados Celsius"), "ºC": Noun("grado Celsius", "grados Celsius"),
    "°F": Noun("grado Fahrenheit", "grados Fahrenheit"), "ºF": Noun("grado Fahrenheit", "grados Fahrenheit"),
    "°": Noun("grado", "grados"), "hab": Noun("habitante", "habitantes"),
}  # fmt: skip

LEXICON = Lexicon(
    cardinal=cardinal,
    alone=alone,
    ordinal=ordinal,
    is_plural=lambda amount: amount != 1,
    of=lambda noun: f"de {noun}",
    cents=lambda count, noun: f"con {count} {noun}",
    gender_behind=_gender_behind,
    digits=("cero", "uno", "dos", "tres", "cuatro", "cinco", "seis", "siete", "ocho", "nueve"),
    comma="coma",
    point="punto",
    negative="menos",
    range="a",
    percent="por ciento",
    per_thousand="por mil",
    half="un medio",
    and_half="y medio",
    parts={
        3: Noun("tercio", "tercios"), 4: Noun("cuarto", "cuartos"), 5: Noun("quinto", "quintos"),
        6: Noun("sexto", "sextos"), 7: Noun("séptimo", "séptimos"), 8: Noun("octavo", "octavos"),
        9: Noun("noveno", "novenos"), 10: Noun("décimo", "décimos"), 100: Noun("centésimo", "centésimos"),
    },
    over="sobre",
    by="por",
    product="por",
    factor="veces",
    divided="entre",
    plus_minus="más menos",
    power="elevado a",
    about="unos",
    per="por",
    millions=("millón", "millones", "billón", "billones"),
    months=tuple("enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre".split()),
    short_months={
        "ene": 1, "feb": 2, "mar": 3, "abr": 4, "may": 5, "jun": 6, "jul": 7, "ago": 8, "sep": 9, "sept": 9, "oct": 10,
        "nov": 11, "dic": 12, "setiembre": 9,
    },
    first_of_month="primero",
    month_join=" de ",
    day_words="[Ee]l|[Aa]l|[Dd]el|[Dd]ía|[Dd]esde el|[Hh]asta el",
    currencies=_CURRENCIES,
    scales={
        "k": 10**3, "K": 10**3, "mil": 10**3, "M": 10**6, "MM": 10**6, "millón": 10**6, "millones": 10**6,
        "millones de": 10**6, "mil millones": 10**9, "mil millones de": 10**9, "billones": 10**12,
    },
    units=_UNITS,
    powers={"²": "cuadrado", "³": "cúbico"},
    per_units={
        "s": "segundo", "seg": "segundo", "min": "minuto", "h": "hora", "kg": "kilo", "l": "litro", "L": "litro",
        "km": "kilómetro", "m": "metro", "ha": "hectárea", "GB": "gigabyte", "m²": "metro cuadrado",
        **{name: name for name in ("segundo", "minuto", "hora", "día", "noche", "semana", "mes", "año", "persona",
                                   "usuario", "kilo", "litro", "unidad", "metro")},
    },
)  # fmt: skip
