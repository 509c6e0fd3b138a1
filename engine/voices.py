"""Voices on disk: a folder per voice with `codes.npy` (integers [K, T]), `transcript.txt`, and maybe `language.txt`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tokenize import TokenError
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from engine.api import Voice

__all__ = ["VOICE_NAME", "VoiceError", "make_voice", "read_voices"]

VOICE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
"""A name is never joined to a path unless it matches this whole pattern."""

MAX_TRANSCRIPT_CHARS = 1_000


class VoiceError(ValueError):
    """A voice that cannot be used; the message says which and why."""


def make_voice(
    name: str, transcript: str, codes: npt.NDArray[np.integer], sizes: tuple[int, ...], description: str = ""
) -> Voice:
    """Check and freeze a voice: `codes` integers [K, T] within the codebooks' `sizes`. Raises VoiceError."""
    if not VOICE_NAME.fullmatch(name):
        raise VoiceError(f"voice name {name[:80]!r} must match {VOICE_NAME.pattern}")
    if len(transcript) > MAX_TRANSCRIPT_CHARS:
        raise VoiceError(f"the transcript of {name!r} has {len(transcript)} characters; at most {MAX_TRANSCRIPT_CHARS}")
    if not np.issubdtype(codes.dtype, np.integer):
        raise VoiceError(f"codes of {name!r} are {codes.dtype}, expected integers")
    if codes.ndim != 2 or codes.shape[0] != len(sizes):
        raise VoiceError(f"codes of {name!r} have shape {list(codes.shape)}, expected [{len(sizes)}, frames]")
    limits = np.asarray(sizes)[:, None]
    if codes.size and (codes.min() < 0 or (codes >= limits).any()):
        raise VoiceError(f"codes of {name!r} are outside their codebooks {sizes}")
    frozen = np.ascontiguousarray(codes, dtype=np.int16)
    if frozen is codes:
        frozen = frozen.copy()
    frozen.flags.writeable = False
    return Voice(name, transcript.strip(), frozen, description)


def read_voices(folder: Path, sizes: tuple[int, ...], default: str | None = None) -> Mapping[str, Voice]:
    """All voices under `folder/voices`, the default first (else alphabetical). Raises VoiceError.

    A model without voices has one called "default": its own, without a reference.
    """
    found = [_read(path, sizes) for path in sorted((folder / "voices").glob("*/")) if (path / "codes.npy").exists()]
    if not found:
        found = [make_voice("default", "", np.zeros((len(sizes), 0), np.int16), sizes)]
    found.sort(key=lambda voice: (voice.name != default, voice.name))
    return MappingProxyType({voice.name: voice for voice in found})


def _read(home: Path, sizes: tuple[int, ...]) -> Voice:
    try:
        transcript = (home / "transcript.txt").read_text(encoding="utf-8")
        codes = np.load(home / "codes.npy", allow_pickle=False)
        tag = home / "language.txt"
        language = tag.read_text(encoding="utf-8").strip() if tag.exists() else ""
    except (OSError, ValueError, EOFError, SyntaxError, TokenError) as error:  # a header is read as Python
        raise VoiceError(f"voice {home.name!r} is not readable: {error}") from None
    return replace(make_voice(home.name, transcript, codes, sizes), language=language)
