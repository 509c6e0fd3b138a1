"""Abbreviations and symbols between words as they are spoken."""

from __future__ import annotations

import re

from realtime.text.boundaries import Abbreviations
from realtime.text.rules import Rule, rule

__all__ = ["ABBREVIATIONS", "SHORT_FORMS", "WORDS"]

ABBREVIATIONS = Abbreviations(
    never_final=frozenset(
        "sr sra srta sres dr dra d dña prof profa lic ing arq gral cnel cap mons sto sta fr hno ud vd "
        "a p ee pág págs art arts núm núms nº vol fig av avda aprox máx mín tel tfno tlf dpto apdo ed cf ej".split()
    ),
    maybe_final=frozenset(
        "etc uds vds uu m c s.a s.l cía hnos jr izq dcha km kg "
        "ene feb mar abr jun jul ago sep sept oct nov dic lun mié jue vie sáb dom".split()
    ),
    halves_of_day=frozenset(("a.m", "p.m")),
)

# Written with a dot behind it -> spoken.
_SHORTENED = {
    "Sr": "señor", "Sra": "señora", "Srta": "señorita", "Sres": "señores", "Dr": "doctor", "Dra": "doctora",
    "Dña": "doña", "Prof": "profesor", "Profa": "profesora", "Lic": "licenciado", "Ing": "ingeniero",
    "Arq": "arquitecto", "Gral": "general", "Cnel": "coronel", "Mons": "monseñor", "Sto": "santo", "Sta": "santa",
    "Ud": "usted", "Uds": "ustedes", "Vd": "usted", "Vds": "ustedes", "etc": "etcétera", "pág": "página",
    "págs": "páginas", "art": "artículo", "arts": "artículos", "núm": "número", "vol": "volumen", "fig": "figura",
    "av": "avenida", "avda": "avenida", "Av": "avenida", "Avda": "avenida", "aprox": "aproximadamente",
    "máx": "máximo", "mín": "mínimo", "tel": "teléfono", "Tel": "teléfono", "tfno": "teléfono", "tlf": "teléfono",
    "dpto": "departamento", "Dpto": "departamento", "apdo": "apartado", "izq": "izquierda", "dcha": "derecha",
    "Cía": "compañía", "Hnos": "hermanos", "Jr": "júnior", "ene": "enero", "feb": "febrero", "abr": "abril",
    "ago": "agosto", "sept": "septiembre", "oct": "octubre", "nov": "noviembre", "dic": "diciembre",
}  # fmt: skip
_SHORT = "|".join(sorted(_SHORTENED, key=len, reverse=True))

# Spelled although they could be read as words.
_SPELLED = "USB|DNI|IA|UE|ADN|IBM|VIP|IP|API|URL|ID|OMS|PIB|UCI|EAU|ITV"

SHORT_FORMS: list[Rule] = [
    rule(r"\bp\.\s?ej\.(?!\w)", "por ejemplo"),
    rule(r"\bEE\.?\s?UU\.(?=\s+[a-záéíóúñ])|\bEE\.?\s?UU\b", "Estados Unidos"),
    rule(r"\ba\.\s?(?:de\s)?C\.(?=\s+[^A-ZÁÉÍÓÚÑ]|[,;:)])|\ba\.\s?(?:de\s)?C\b", "antes de Cristo"),
    rule(r"\bd\.\s?(?:de\s)?C\.(?=\s+[^A-ZÁÉÍÓÚÑ]|[,;:)])|\bd\.\s?(?:de\s)?C\b", "después de Cristo"),
    rule(r"\bc/\s?(?=[A-ZÁÉÍÓÚÑ])", "calle "),
    rule(r"\bs/n\b", "sin número"),
    rule(r"\b([yY])/o\b", r"\1 o"),
    # Before a figure only: "p." may be anything.
    rule(r"\bp\.\s?(?=[0-9])", "página "),
]
"""Before figures are read, which these may hold or precede."""

WORDS: list[Rule] = [
    rule(r"\bD\.(?=\s+[A-ZÁÉÍÓÚÑ])", "don"),
    rule(rf"\b({_SHORT})\.(?!\w)", lambda m: _SHORTENED[m[1]]),
    rule(r"\b(Sra|Dra|Sr|Dr)(?=\s+[A-ZÁÉÍÓÚÑ])", lambda m: _SHORTENED[m[1]]),
    # Initials lose their dots, and keep apart.
    rule(r"\b(?:[A-ZÑ]\.\s?){2,}(?!\w)", lambda m: " ".join(re.findall("[A-ZÑ]", m[0])) + " "),
    rule(rf"\b(?:{_SPELLED}|[B-DF-HJ-NP-TV-XZ]{{2,5}})\b", lambda m: " ".join(m[0])),
    rule(r"\b([CF])#(?!\w)", r"\1 sharp"),
    rule(r"\b([Cc])\+\+(?!\w)", r"\1 más más"),
    rule(r"\s*&\s*", " y "),
    rule(r"\s*(?:<=|≤)\s*", " menor o igual que "),
    rule(r"\s*(?:>=|≥)\s*", " mayor o igual que "),
    rule(r"\s*(?:!=|≠)\s*", " distinto de "),
    rule(r"\s*(?:-+>|→|⇒|=>)\s*", " a "),
    rule(r"(?<=[\w)])\s?<\s?(?=[\w(])", " menor que "),
    rule(r"(?<=[\w)])\s?>\s?(?=[\w(])", " mayor que "),
    rule(r"\s*\+\s*", " más "),
    rule(r"\s*=+\s*", " igual a "),
    rule(r"(?<=\w)\s*@\s*(?=\w)|(?<!\w)@(?=\w)", " arroba "),
    rule(r"§+\s*", "sección "),
    rule(r"(?<=\w)²", " al cuadrado"),
    rule(r"(?<=\w)³", " al cubo"),
    rule(r"/", " "),
    rule(r"(?<!\w)-+(?=[^\W\d_])", ""),
    rule(r"\s+-+\s+|\s*-{2,}\s*", ", "),
]
