"""Sound to encode, and ways to push it through an encoder and to hear the result with other people's decoders."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import soundfile
from kingfisher_client.sound import OpusPacketDecoder

from realtime.audio.chunk import AudioChunk
from realtime.audio.encoder import AudioEncoder, make_encoder
from realtime.protocol.events import OutputSpec

RATE_HZ = 24_000
Pcm = npt.NDArray[np.int16]


def tone(samples: int, rate_hz: int = RATE_HZ, hz: float = 440.0) -> Pcm:
    return (12_000 * np.sin(2 * np.pi * hz * np.arange(samples) / rate_hz)).astype(np.int16)


def noise(samples: int) -> Pcm:
    return (np.random.default_rng(1).standard_normal(samples) * 3000).astype(np.int16)


def encoder_of(form: str, rate_hz: int | None = None, engine_rate_hz: int = RATE_HZ) -> AudioEncoder:
    return make_encoder(OutputSpec(form, rate_hz), engine_rate_hz)  # type: ignore[arg-type]


def pushed(encoder: AudioEncoder, pcm: Pcm, cuts: Iterable[int] = ()) -> list[AudioChunk]:
    """The chunks of `pcm` cut at `cuts`; the encoder stays open."""
    edges = [0, *sorted(cut % (len(pcm) + 1) for cut in cuts), len(pcm)]
    return [chunk for a, b in itertools.pairwise(edges) for chunk in encoder.encode(pcm[a:b])]


def run(encoder: AudioEncoder, pcm: Pcm, cuts: Iterable[int] = ()) -> list[AudioChunk]:
    """The same with the end of the stream."""
    return pushed(encoder, pcm, cuts) + encoder.close()


def joined(chunks: Iterable[AudioChunk]) -> bytes:
    return b"".join(chunk.data for chunk in chunks)


def packets_of(chunks: Iterable[AudioChunk]) -> list[bytes]:
    return [packet for chunk in chunks for packet in chunk.packets]


class Heard(NamedTuple):
    pcm: Pcm
    rate_hz: int

    @property
    def seconds(self) -> float:
        return len(self.pcm) / self.rate_hz


def heard(form: str, chunks: list[AudioChunk], pcm_rate_hz: int = RATE_HZ) -> Heard:
    """What a listener's decoder makes of the stream, at the rate the decoder chooses."""
    if form == "opus_packets":
        return Heard(np.frombuffer(OpusPacketDecoder().decode(packets_of(chunks)), np.int16), 48_000)
    if form == "opus":
        return Heard(*soundfile.read(io.BytesIO(joined(chunks)), dtype="int16"))
    return Heard(np.frombuffer(joined(chunks)[44 if form == "wav" else 0 :], np.int16), pcm_rate_hz)


def pitch_hz(sound: Heard) -> float:
    """The strongest frequency of the first two seconds."""
    pcm = sound.pcm[: 2 * sound.rate_hz]
    return float(np.argmax(np.abs(np.fft.rfft(pcm * np.hanning(len(pcm)))))) * sound.rate_hz / len(pcm)
