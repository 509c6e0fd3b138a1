"""PCM at the engine's rate -> the chosen format, as a stream."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from realtime.audio.blocks import BlockEncoder
from realtime.audio.chunk import AudioChunk
from realtime.audio.f32 import F32Encoder
from realtime.audio.g711 import G711Encoder
from realtime.audio.libav import AacCodec, FlacCodec, Mp3Codec
from realtime.audio.ogg import OggOpusEncoder
from realtime.audio.opus import OPUS_RATES_HZ, OpusEncoder
from realtime.audio.packetizer import OpusPacketsEncoder, Packetizer
from realtime.audio.pcm import PcmEncoder
from realtime.audio.resample import Resampler
from realtime.audio.shaped import ShapedEncoder
from realtime.audio.wav import WavEncoder, wav_header
from realtime.protocol.events import OutputSpec

__all__ = ["AudioEncoder", "make_encoder", "output_rate_hz"]


class AudioEncoder(Protocol):
    """Lives from `start` to `finish`, with one container. One owner, no thread safety."""

    def encode(self, pcm: npt.NDArray[np.int16]) -> list[AudioChunk]:
        """int16 [N] at the engine's rate, any N -> at most one chunk."""
        ...

    def drain(self) -> list[AudioChunk]:
        """A run of speech ends: all that was pushed comes out, padded where the format needs it. More may follow."""
        ...

    def discard(self) -> None:
        """Forget sound that was pushed and has not come out (barge-in)."""
        ...

    def close(self) -> list[AudioChunk]:
        """Drain, and end the container. Nothing may follow."""
        ...


def output_rate_hz(spec: OutputSpec, engine_rate_hz: int) -> int:
    """The rate of the audio that leaves (for Opus: the rate the encoder works at)."""
    if spec.format in ("opus", "opus_packets"):
        return engine_rate_hz if engine_rate_hz in OPUS_RATES_HZ else 48_000
    return spec.sample_rate_hz or engine_rate_hz


def make_encoder(spec: OutputSpec, engine_rate_hz: int) -> AudioEncoder:
    """An encoder for one stream. `spec` was checked by the protocol. Raises OpusUnavailable."""
    encoder = _of_format(spec, engine_rate_hz)
    if spec.speed == 1.0 and spec.volume_db == 0.0:
        return encoder
    return ShapedEncoder(encoder, spec.speed, spec.volume_db, engine_rate_hz)


def _of_format(spec: OutputSpec, engine_rate_hz: int) -> AudioEncoder:
    rate_hz = output_rate_hz(spec, engine_rate_hz)
    resampler = Resampler(engine_rate_hz, rate_hz)
    match spec.format:
        case "pcm":
            return PcmEncoder(resampler, rate_hz)
        case "wav":
            return WavEncoder(PcmEncoder(resampler, rate_hz), wav_header(rate_hz))
        case "wav_f32":
            return WavEncoder(F32Encoder(resampler, rate_hz), wav_header(rate_hz, samples="f32"))
        case "wav_mulaw":
            return WavEncoder(G711Encoder(resampler, rate_hz, "mulaw"), wav_header(rate_hz, samples="mulaw"))
        case "wav_alaw":
            return WavEncoder(G711Encoder(resampler, rate_hz, "alaw"), wav_header(rate_hz, samples="alaw"))
        case "f32":
            return F32Encoder(resampler, rate_hz)
        case "mulaw" | "alaw":
            return G711Encoder(resampler, rate_hz, spec.format)
        case "opus_packets":
            return OpusPacketsEncoder(Packetizer(resampler, OpusEncoder(rate_hz, spec.opus_bitrate)))
        case "opus":
            return OggOpusEncoder(Packetizer(resampler, OpusEncoder(rate_hz, spec.opus_bitrate)))
        case "mp3":
            return BlockEncoder(resampler, Mp3Codec(rate_hz, spec.mp3_bitrate))
        case "aac":
            return BlockEncoder(resampler, AacCodec(rate_hz))
        case "flac":
            return BlockEncoder(resampler, FlacCodec(rate_hz))
