"""Spanish, as it is read in Spain; forms of the Americas where they cannot be mistaken.

| written | spoken |
|---|---|
| 1.234,5 · 1 234,5 · 21 días, 200 páginas | mil doscientos treinta y cuatro coma cinco; veintiún días, … |
| 4,75 € · $20 · 3 M€ · 12 €/mes | cuatro euros con setenta y cinco céntimos, …, tres millones de euros, … por mes |
| 14/03/2026, 2026-03-14, 1 de mayo, 3 feb. 2024 | catorce de marzo de dos mil veintiséis, …, primero de mayo, … |
| 15:30, 9:00 h, 3 p. m., 10:45:30 | quince treinta, nueve, tres de la tarde, … |
| 50 %, 20 °C, 80 km/h, -7, 3-5, 1/2, 2 1/2 | cincuenta por ciento, …, menos siete, tres a cinco, un medio, … |
| 1.º, 2ª, 3.er, n.º 5, siglo XXI, Felipe VI | primero, segunda, tercer, número cinco, siglo veintiuno, Felipe sexto |
| 612 345 678, +34 …, código 4821 | digit by digit, a comma between groups |
| Sr., Dña., EE. UU., p. ej., a. C., c/ Mayor | señor, doña, Estados Unidos, por ejemplo, antes de Cristo, calle Mayor |
| DVD, DNI, S. L., me_2@a.example | D V D, D N I, S L, me guion bajo dos arroba a punto example |
| ¡¿Qué?!, «sí» | ¿Qué?, "sí" |

`$` is the dollar, a point before three digits marks thousands, a comma never does (unless it comes twice, or a point
behind it). Nine digits from 6 to 9 in groups of three are a telephone; thousands of that size want unbreaking spaces.
"""

from __future__ import annotations

from realtime.text.addresses import AddressWords, addresses
from realtime.text.language import Language
from realtime.text.markup import markup
from realtime.text.romance.amounts import amounts
from realtime.text.romance.dates import dates
from realtime.text.romance.numbers import grouping
from realtime.text.romance.typography import TYPOGRAPHY
from realtime.text.spanish.figures import CODES, ORDINALS, ROMAN, TIMES
from realtime.text.spanish.lexicon import LEXICON
from realtime.text.spanish.words import ABBREVIATIONS, SHORT_FORMS, WORDS

__all__ = ["SPANISH"]

_ADDRESS_WORDS = AddressWords("punto", "barra", "arroba", "guion bajo", "más", "guion")

SPANISH = Language(
    "es",
    ABBREVIATIONS,
    typography=tuple(TYPOGRAPHY),
    marks=Language.join(markup(LEXICON.product), addresses(_ADDRESS_WORDS), SHORT_FORMS),
    numbers=Language.join(dates(LEXICON), TIMES, CODES, grouping(), ORDINALS, amounts(LEXICON)),
    words=Language.join(ROMAN, WORDS),
)
