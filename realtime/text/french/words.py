"""Abbreviations and symbols between words as they are spoken."""

from __future__ import annotations

import re

from realtime.text.boundaries import Abbreviations
from realtime.text.rules import Rule, rule

__all__ = ["ABBREVIATIONS", "SHORT_FORMS", "WORDS"]

ABBREVIATIONS = Abbreviations(
    never_final=frozenset(
        "m mm mr dr pr me mme mlle st ste av bd bld pl p pp art chap fig vol tél env ex d cf éd réf nos".split()
    ),
    maybe_final=frozenset(
        "etc cie sarl j.-c jr max min hab km kg janv févr fév avr juil sept oct nov déc lun mer jeu ven sam dim".split()
    ),
)

# Written with a dot behind it -> spoken.
_SHORTENED = {
    "Mr": "monsieur", "MM": "messieurs", "Dr": "docteur", "Pr": "professeur", "St": "saint", "Ste": "sainte",
    "etc": "et cetera", "art": "article", "chap": "chapitre", "fig": "figure", "vol": "volume", "tél": "téléphone",
    "Tél": "téléphone", "env": "environ", "éd": "édition", "réf": "référence", "Réf": "référence", "max": "maximum",
    "min": "minimum", "Cie": "compagnie", "bd": "boulevard", "bld": "boulevard", "Bd": "boulevard", "janv": "janvier",
    "févr": "février", "fév": "février", "avr": "avril", "juil": "juillet", "oct": "octobre",
    "nov": "novembre", "déc": "décembre", "cf": "confer",
}  # fmt: skip
_SHORT = "|".join(sorted(_SHORTENED, key=len, reverse=True))

# Written without a dot -> spoken.
_CONTRACTED = {
    "Mme": "madame", "Mmes": "mesdames", "Mlle": "mademoiselle", "Mlles": "mesdemoiselles", "MM": "messieurs",
    "RDV": "rendez-vous", "rdv": "rendez-vous", "SVP": "s'il vous plaît", "svp": "s'il vous plaît", "bd": "boulevard",
    "Bd": "boulevard", "bld": "boulevard", "qqn": "quelqu'un", "qqch": "quelque chose", "TTC": "toutes taxes comprises",
    "HT": "hors taxes",
}  # fmt: skip
_CONTRACTED_NAMES = "|".join(sorted(_CONTRACTED, key=len, reverse=True))
_BEFORE_NAMES = {"M": "monsieur", "Me": "maître", "Dr": "docteur", "Pr": "professeur", "St": "saint", "Ste": "sainte"}
_CAPITAL = "[A-ZÀÂÇÉÈÊËÎÏÔÙÛÜŒ]"

# Spelled although they could be read as words.
_SPELLED = "USB|SNCF|IA|UE|ADN|IBM|VIP|IP|API|URL|ID|PIB|RATP|EDF|CAF|SAV|TVA|RIB|IBAN|HLM"

SHORT_FORMS: list[Rule] = [
    rule(r"\bp\.\s?ex\.(?!\w)", "par exemple"),
    rule(r"\bc\.?-à-d\.?(?!\w)", "c'est-à-dire"),
    rule(r"\b(av|ap)\.\s?J\.?-C(?:\.(?!\s+" + _CAPITAL + r"|\s*$))?(?!\w)",
         lambda m: f"{'avant' if m[1] == 'av' else 'après'} Jésus-Christ"),
    rule(r"\b[Aa]v\.(?=\s)", "avenue"),
    rule(r"\b([Ee])t/ou\b", r"\1t ou"),
    rule(r"\b([Ee]n|[Ff]in|[Dd]ébut|[Mm]i-|[Dd]epuis|[Jj]usqu'en)\s?sept\.", r"\1 septembre"),  # later "sept" is seven
    rule(r"\bs\.v\.p\.?(?!\w)", "s'il vous plaît"),
    # Before a figure only: "p." may be anything.
    rule(r"\bp(?:p|ages?)?\.\s?(?=[0-9])", "page "),
    rule(r"\bM\.(?=\s)", "monsieur"),
]  # fmt: skip
"""Before figures are read, which these may hold or precede."""

WORDS: list[Rule] = [
    rule(rf"\b(M|Me|Dr|Pr|Ste?)[ -](?={_CAPITAL}\w)", lambda m: f"{_BEFORE_NAMES[m[1]]} "),
    rule(rf"\b({_SHORT})\.(?!\w)", lambda m: _SHORTENED[m[1]]),
    rule(rf"\b({_CONTRACTED_NAMES})\b", lambda m: _CONTRACTED[m[1]]),
    # Initials lose their dots, and keep apart.
    rule(rf"\b(?:{_CAPITAL}\.\s?){{2,}}(?!\w)", lambda m: " ".join(re.findall(_CAPITAL, m[0])) + " "),
    rule(rf"\b(?:{_SPELLED}|[B-DF-HJ-NP-TV-XZ]{{2,5}})\b", lambda m: " ".join(m[0])),
    rule(r"\b([CF])#(?!\w)", r"\1 dièse"),
    rule(r"\b([Cc])\+\+(?!\w)", r"\1 plus plus"),
    rule(r"\s*&\s*", " et "),
    rule(r"\s*(?:<=|≤)\s*", " inférieur ou égal à "),
    rule(r"\s*(?:>=|≥)\s*", " supérieur ou égal à "),
    rule(r"\s*(?:!=|≠)\s*", " différent de "),
    rule(r"\s*(?:-+>|→|⇒|=>)\s*", " vers "),
    rule(r"(?<=[\w)])\s?<\s?(?=[\w(])", " inférieur à "),
    rule(r"(?<=[\w)])\s?>\s?(?=[\w(])", " supérieur à "),
    rule(r"\s*\+\s*", " plus "),
    rule(r"\s*=+\s*", " égale "),
    rule(r"(?<=\w)\s*@\s*(?=\w)|(?<!\w)@(?=\w)", " arobase "),
    rule(r"§+\s*", "paragraphe "),
    rule(r"(?<=\w)²", " au carré"),
    rule(r"(?<=\w)³", " au cube"),
    rule(r"/", " "),
    rule(r"(?<!\w)-+(?=[^\W\d_])", ""),
    rule(r"\s+-+\s+|\s*-{2,}\s*", ", "),
]
