"""French, as it is read in France.

| written | spoken |
|---|---|
| 1 234,5 · 1.234,5 · 1,234.5 · 21 minutes | mille deux cent trente-quatre virgule cinq; vingt et une minutes |
| 4,75 € · 20 $ · 3 M€ · 12 €/mois | quatre euros soixante-quinze, vingt dollars, trois millions d'euros, … par mois |
| 14/03/2026, 2026-03-14, 1er mai, 3 févr. 2024 | quatorze mars deux mille vingt-six, …, premier mai, … |
| 15h30, 15:30, 9 h, 10:45:30, 24h/24 | quinze heures trente, …, neuf heures, …, vingt-quatre heures sur vingt-quatre |
| 50 %, 20 °C, 80 km/h, -7, 3-5, 1/2, 2 1/2 | cinquante pour cent, …, moins sept, trois à cinq, un demi, … |
| 1er, 2nde, n° 5, XXIe siècle, Louis XIV | premier, seconde, numéro cinq, vingt et unième siècle, Louis quatorze |
| 06 12 34 56 78, +33 …, code 4821 | zéro six, douze, trente-quatre, …; digit by digit elsewhere |
| M. Dupont, Mme, p. ex., av. J.-C., RDV | monsieur Dupont, madame, par exemple, avant Jésus-Christ, rendez-vous |
| TGV, S.A., me_2@a.example | T G V, S A, me tiret bas deux arobase a point example |
| « Bonjour ! », Ça va ? | "Bonjour!", Ça va? |

A point before three digits marks thousands, a comma never does (unless it comes twice, or a point behind it).
"""

from __future__ import annotations

from realtime.text.addresses import AddressWords, addresses
from realtime.text.french.figures import CODES, ORDINALS, ROMAN, TIMES
from realtime.text.french.lexicon import LEXICON
from realtime.text.french.words import ABBREVIATIONS, SHORT_FORMS, WORDS
from realtime.text.language import Language
from realtime.text.markup import markup
from realtime.text.romance.amounts import amounts
from realtime.text.romance.dates import dates
from realtime.text.romance.numbers import grouping
from realtime.text.romance.typography import TYPOGRAPHY

__all__ = ["FRENCH"]

_ADDRESS_WORDS = AddressWords("point", "slash", "arobase", "tiret bas", "plus", "tiret")

FRENCH = Language(
    "fr",
    ABBREVIATIONS,
    typography=tuple(TYPOGRAPHY),
    marks=Language.join(markup(LEXICON.product), addresses(_ADDRESS_WORDS), SHORT_FORMS),
    numbers=Language.join(dates(LEXICON), TIMES, CODES, grouping(), ORDINALS, amounts(LEXICON)),
    words=Language.join(ROMAN, WORDS),
)
