"""The segmenter in Spanish and French: abbreviations and quotes of their own, wherever the messages are cut."""

from __future__ import annotations

import pytest

from realtime.text.languages import LANGUAGES, language_of
from realtime.text.segmenter import Segmenter

WHOLE = {
    "es": [
        "Ayer vimos al Sr. García y a la Dra. Ruiz en casa.",
        "Vive en EE. UU. desde hace ya muchos años.",
        "Abre a las 9 a. m. y cierra a las 3 p. m. todos los días.",
        "Hay ciudades, p. ej. París o Roma, en la lista.",
        "Murió en el 44 a. C. en la ciudad de Roma.",
        "Está en la pág. 12 del vol. 3 de la obra.",
        "El piso es el 1.º o el 2.º de la calle.",
        "Son 1.234,56 o 3,5 en todos ellos.",
        "El modelo No. 5 es el mejor de todos.",
        "«¿Estás del todo seguro?» preguntó ella.",
    ],
    "fr": [
        "Hier nous avons vu M. Dupont et le Dr. Martin chez eux.",
        "Il y a des villes, p. ex. Paris ou Rome, sur la liste.",
        "C'est tout, c.-à-d. rien du tout pour nous.",
        "César est mort en 44 av. J.-C. à Rome, dit-on.",
        "C'est à la p. 12 du vol. 3 de cet ouvrage.",
        "Cela fait 1.234,56 ou 3,5 en tout.",
        "« Vous êtes tout à fait sûr ? » demanda-t-elle.",
    ],
}
CUT = {
    "es": [
        ("Cierra a las 3 p. m. Luego abre.", ["Cierra a las 3 p. m.", "Luego abre."]),
        ("Ella dijo que no. Es definitivo.", ["Ella dijo que no.", "Es definitivo."]),
        ("Manzanas, peras, etc. ¿Quiere más?", ["Manzanas, peras, etc.", "¿Quiere más?"]),
        ("¡Qué alegría verte! ¿Cómo estás?", ["¡Qué alegría verte!", "¿Cómo estás?"]),
        ("Vive en los EE. UU. Nos escribe poco.", ["Vive en los EE. UU.", "Nos escribe poco."]),
    ],
    "fr": [
        ("Il a dit non. C'est définitif.", ["Il a dit non.", "C'est définitif."]),
        ("Des pommes, des poires, etc. Voilà.", ["Des pommes, des poires, etc.", "Voilà."]),
        ("Comment ça va ? Très bien !", ["Comment ça va ?", "Très bien !"]),
        ("« Tu viens demain ? » Elle ne dit rien.", ["« Tu viens demain ? »", "Elle ne dit rien."]),
    ],
}
# The first unit may end at a clause mark; a sentence before keeps that rule away.
LEAD = "Todo va bien."


def units_of(tag: str, *pieces: str) -> list[str]:
    segmenter = Segmenter(abbreviations=language_of(tag).abbreviations)
    units = [unit for piece in pieces for unit in segmenter.feed(piece)]
    return [unit.text for unit in units + segmenter.flush()]


@pytest.mark.parametrize(("tag", "sentence"), [(tag, text) for tag, texts in WHOLE.items() for text in texts])
def test_dots_and_marks_inside_a_sentence_do_not_end_it(tag: str, sentence: str) -> None:
    assert units_of(tag, f"{LEAD} {sentence} Otra cosa.") == [LEAD, sentence, "Otra cosa."]


@pytest.mark.parametrize(("tag", "text", "expected"), [(tag, *case) for tag, cases in CUT.items() for case in cases])
def test_sentences(tag: str, text: str, expected: list[str]) -> None:
    assert units_of(tag, LEAD, " ", text) == [LEAD, *expected]


@pytest.mark.parametrize("tag", WHOLE)
def test_character_by_character_is_no_different(tag: str) -> None:
    text = " ".join([*WHOLE[tag], *(text for text, _ in CUT[tag])])
    assert units_of(tag, *text) == units_of(tag, text)


def test_a_question_without_open_quotes_does_not_wait_for_what_follows() -> None:
    for language in LANGUAGES.values():
        (unit,) = Segmenter(abbreviations=language.abbreviations).feed("« Ça » va vraiment ? ")
        assert unit.text == "« Ça » va vraiment ?"


def test_a_question_in_open_quotes_waits_for_one_character() -> None:
    segmenter = Segmenter()
    assert segmenter.feed("« Ça va vraiment ? ") == []
    (unit,) = segmenter.feed("O")
    assert unit.text == "« Ça va vraiment ?"
