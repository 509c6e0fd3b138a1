"""The fields of `start.request` but its text: what a stream may ask for. clients/PROTOCOL.md has their ranges."""

from __future__ import annotations

from typing import Literal, TypedDict

__all__ = ["Format", "Prosody", "Reference", "SpeechRequest", "StreamRequest"]

Format = Literal["opus", "opus_packets", "pcm", "wav", "mp3", "aac", "flac"]


class Prosody(TypedDict, total=False):
    speed: float
    """0.5 to 2, at the same pitch."""
    volume: float
    """-20 to 20 dB."""


class _Clip(TypedDict):
    audio: bytes
    """A file: wav, mp3, flac, ogg …"""


class Reference(_Clip, total=False):
    """A clip whose voice is to be spoken with."""

    text: str
    """What it says."""


class SpeechRequest(TypedDict, total=False):
    """How to speak. What is left out, or None, is the server's default."""

    voice: str | None
    reference_id: str | list[str] | None
    references: list[Reference] | list[list[Reference]]
    prosody: Prosody | None
    latency: Literal["low", "balanced", "normal"] | None
    chunk_length: int | None
    normalize: bool | None
    language: str | None
    temperature: float | None
    top_p: float | None
    seed: int | None
    max_lead_s: float | None


class StreamRequest(SpeechRequest, total=False):
    """And in which form the sound comes."""

    format: Format | None
    sample_rate: int | None
    """Hz"""
    opus_bitrate: int | None
    mp3_bitrate: int | None
    """bit/s"""
