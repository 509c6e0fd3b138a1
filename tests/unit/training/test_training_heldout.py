"""The held-out sentences are what they claim to be: a hundred, of every kind, unknown to the corpus."""

from __future__ import annotations

import re
import tarfile
import tomllib
from io import BytesIO
from pathlib import Path

import pytest

from engine.hearing import word_errors, words
from engine.training import texts
from engine.training.data import sentences
from engine.training.heldout import ALSO_TRAINED, held_out, is_held_out
from realtime.text.languages import LANGUAGES
from realtime.text.normalizer import normalize

REGISTERS = {
    language: tomllib.loads(Path(texts.__file__).with_name(name).read_text())
    for language, name in (("en", "sentences.toml"), ("es", "sentences-es.toml"), ("fr", "sentences-fr.toml"))
}


def test_there_are_a_hundred_of_six_kinds_with_keys_of_their_own() -> None:
    items = held_out()
    assert len(items) == 100 == len({item.key for item in items}) == len({item.text for item in items})
    assert {item.kind for item in items} == {"plain", "name", "question", "number", "abbreviation", "reply"}


@pytest.mark.parametrize("language", REGISTERS)
def test_no_template_makes_a_held_out_sentence(language: str) -> None:
    register = REGISTERS[language]
    patterns = [re.compile(re.sub(r"\\{\w+\\}", ".+", re.escape(line))) for line in register["templates"]]
    filled = re.sub(r"\{\w+\}", "Anna", register["templates"][0])
    assert patterns[0].fullmatch(filled)
    for item in held_out(language):
        assert not any(pattern.fullmatch(form) for pattern in patterns for form in (item.text, item.spoken)), item
        assert item.text not in register["short"] or item.text in ALSO_TRAINED


@pytest.mark.parametrize("language", ["es", "fr"])
def test_further_languages_have_sixty_of_the_same_kinds(language: str) -> None:
    items = held_out(language)
    assert len(items) == 60 == len({item.key for item in items}) == len({item.text for item in items})
    assert {item.kind for item in items} == {item.kind for item in held_out()}


@pytest.mark.parametrize("language", ["es", "fr"])
def test_what_should_be_heard_is_what_the_normaliser_makes(language: str) -> None:
    for item in held_out(language):
        assert normalize(item.text, LANGUAGES[language]) == item.spoken


@pytest.mark.parametrize(
    "form",
    [
        "Where should I sign?",
        "where should i sign",
        "We expect twenty five guests.",
        "¿Dónde tengo que firmar?",
        "dónde tengo que firmar",
        "Nous attendons vingt-cinq invités.",
    ],
)
def test_a_held_out_sentence_is_known_however_it_is_written(form: str) -> None:
    assert is_held_out(form)


def test_the_corpus_leaves_held_out_sentences_out(tmp_path: Path) -> None:
    archive = tmp_path / "wordnet.tgz"
    with tarfile.open(archive, "w:gz") as packed:
        for part in ("noun", "verb", "adj", "adv"):
            line = b'1 2 | a thing; "Where should I sign?"; "He rang the bell at noon"\n'
            info = tarfile.TarInfo(f"package/dict/data.{part}")
            info.size = len(line)
            packed.addfile(info, BytesIO(line))
    made = sentences(archive, seed=1)
    assert "He rang the bell at noon." in made
    assert "Where should I sign?" not in made
    assert set(made) >= {"Okay.", "No."}


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        ("We expect twenty five guests.", "We expect 25 guests."),
        ("Your ticket costs fifteen dollars.", "Your ticket costs $15."),
        ("About sixty percent of the seats are taken.", "About 60% of the seats are taken."),
        ("They planted one thousand two hundred trees along the canal.", "They planted 1,200 trees along the canal."),
        ("It weighs three point five kilograms.", "It weighs 3.5 kilograms."),
        ("Doctor Holloway is running late.", "Dr. Holloway is running late."),
        ("The U S A and the U K signed it.", "The U.S.A. and the UK signed it."),
        ("Bring snacks, for example nuts or fruit.", "Bring snacks, e.g. nuts or fruit."),
        ("Ours is the twenty first house.", "Ours is the 21st house."),
        ("Okay.", "OK"),
    ],
)
def test_two_spellings_of_the_same_words_are_no_error(said: str, heard: str) -> None:
    assert words(said) == words(heard)
    assert word_errors(said, heard)[0] == 0


@pytest.mark.parametrize(
    ("language", "said", "heard"),
    [
        ("es", "Plantaron mil doscientos árboles.", "Plantaron 1.200 árboles"),
        ("es", "El sesenta por ciento de los asientos.", "El 60% de los asientos."),
        ("es", "El señor Olivares y la doctora Paredes.", "El Sr. Olivares y la Dra. Paredes."),
        ("es", "Envíe el P D F.", "¡Envíe el PDF!"),
        ("fr", "Ils ont planté mille deux cents arbres.", "Ils ont planté 1 200 arbres."),
        ("fr", "L'entrée coûte quinze euros.", "L’entrée coûte 15€."),
        ("fr", "monsieur Delacroix prend le T G V.", "M. Delacroix prend le TGV."),
    ],
)
def test_two_spellings_of_the_same_foreign_words_are_no_error(language: str, said: str, heard: str) -> None:
    assert word_errors(said, heard, language)[0] == 0


def test_a_foreign_error_counts_with_its_accent() -> None:
    assert word_errors("El papá llegó.", "El papa llegó.", "es") == (1, 3)


def test_errors_count_substitutions_insertions_and_deletions() -> None:
    assert word_errors("one two three", "one too three") == (1, 3)
    assert word_errors("one two three", "one three") == (1, 3)
    assert word_errors("one two three", "") == (3, 3)
    assert word_errors("no", "no no no") == (2, 1)


def test_every_short_form_reads_as_its_spoken_form() -> None:
    """What a recogniser may well write, the text itself, must not count as an error."""
    for item in held_out():
        assert word_errors(item.spoken, item.text)[0] == 0, item
