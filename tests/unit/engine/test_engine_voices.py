"""Voices on disk: names that cannot leave their folder, codes that fit their codebooks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.voices import VoiceError, make_voice, read_voices

SIZES = (64, 32)
CODES = np.array([[1, 2, 63], [4, 5, 31]])


def test_the_default_comes_first_then_the_alphabet(tmp_path: Path) -> None:
    for name in ("zoe", "adam", "mia"):
        home = tmp_path / "voices" / name
        home.mkdir(parents=True)
        np.save(home / "codes.npy", CODES.astype(np.int16))
        (home / "transcript.txt").write_text(f"I am {name}.\n")
    voices = read_voices(tmp_path, SIZES, "mia")
    assert list(voices) == ["mia", "adam", "zoe"]
    assert voices["zoe"].transcript == "I am zoe."


def test_a_voice_may_say_its_language(tmp_path: Path) -> None:
    for name, tag in (("ana", "es-MX\n"), ("bob", None)):
        home = tmp_path / "voices" / name
        home.mkdir(parents=True)
        np.save(home / "codes.npy", CODES)
        (home / "transcript.txt").write_text("Hola.")
        if tag is not None:
            (home / "language.txt").write_text(tag)
    assert {name: voice.language for name, voice in read_voices(tmp_path, SIZES).items()} == {"ana": "es-MX", "bob": ""}


def test_a_model_without_voices_has_its_own(tmp_path: Path) -> None:
    voices = read_voices(tmp_path, SIZES)
    assert list(voices) == ["default"]
    assert voices["default"].codes.shape == (2, 0)


def test_codes_are_read_only_and_the_key_covers_every_codebook() -> None:
    voice = make_voice("a", "Hi.", CODES, SIZES)
    with pytest.raises(ValueError, match="read-only"):
        voice.codes[0, 0] = 3
    other = CODES.copy()
    other[1, 2] -= 1
    assert make_voice("a", "Hi.", other, SIZES).key != voice.key


@pytest.mark.parametrize("name", ["../up", "/etc/hostname", "..%2f", "a\0b", "", "-x", "x" * 65, "a/b", "é"])
def test_a_name_that_could_be_a_path_is_refused(name: str) -> None:
    with pytest.raises(VoiceError, match="name"):
        make_voice(name, "Hi.", CODES, SIZES)


@pytest.mark.parametrize(
    "codes",
    [CODES[:1], np.array([[64], [0]]), np.array([[-1], [0]]), np.zeros((2, 2, 2), int), CODES.astype(float)],
)
def test_codes_outside_their_codebooks_are_refused(codes: np.ndarray) -> None:
    with pytest.raises(VoiceError, match="codes of 'a'"):
        make_voice("a", "Hi.", codes, SIZES)


@pytest.mark.parametrize("content", [b"", b"not numpy", b"\x93NUMPY\x01\x00", b"\x93NUMPY\x01\x00\x40\x00" + bytes(64)])
def test_a_voice_that_cannot_be_read_is_named(tmp_path: Path, content: bytes) -> None:
    home = tmp_path / "voices" / "broken"
    home.mkdir(parents=True)
    (home / "codes.npy").write_bytes(content)
    (home / "transcript.txt").write_text("Hi.")
    with pytest.raises(VoiceError, match="'broken' is not readable"):
        read_voices(tmp_path, SIZES)
    np.save(home / "codes.npy", CODES)
    (home / "transcript.txt").unlink()
    with pytest.raises(VoiceError, match="'broken' is not readable"):
        read_voices(tmp_path, SIZES)


def test_a_transcript_has_a_limit() -> None:
    with pytest.raises(VoiceError, match="1001 characters; at most 1000"):
        make_voice("a", "x" * 1001, CODES, SIZES)
