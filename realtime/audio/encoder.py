"""PCM at the engine's rate -> the chosen format, as a stream.

An encoder lives from `start` to `finish`, with one container. `drain` ends a run of speech (everything pushed so far
comes out, padded where the format needs it; more may follow), `close` ends the stream.
"""

from __future__ import annotations

import secrets
import struct
from typing import Protocol

import numpy as np
import numpy.typing as npt

from realtime.audio.chunk import AudioChunk
from realtime.audio.ogg import GRANULE_HZ, OggOpusWriter
from realtime.audio.opus import FRAME_MS, OPUS_RATES_HZ, OpusEncoder
from realtime.audio.resample import Resampler
from realtime.protocol.events import OutputSpec

__all__ = ["AudioEncoder", "make_encoder", "output_rate_hz"]

MIN_PCM_EVENT_BYTES = 1_026
"""Some clients in use drop audio events of 1024 bytes or less; whole samples above that."""

Pcm = npt.NDArray[np.int16]


class AudioEncoder(Protocol):
    def encode(self, pcm: Pcm) -> list[AudioChunk]:
        """int16 [N] -> at most one chunk."""
        ...

    def drain(self) -> list[AudioChunk]: ...

    def discard(self) -> None:
        """Forget sound that was pushed and has not come out (barge-in)."""
        ...

    def close(self) -> list[AudioChunk]: ...


def output_rate_hz(spec: OutputSpec, engine_rate_hz: int) -> int:
    """The rate of the audio that leaves (for Opus: the rate the encoder works at)."""
    if spec.format in ("opus", "opus_packets"):
        return engine_rate_hz if engine_rate_hz in OPUS_RATES_HZ else 48_000
    return spec.sample_rate_hz or engine_rate_hz


def make_encoder(spec: OutputSpec, engine_rate_hz: int) -> AudioEncoder:
    """An encoder for one stream. `spec` was checked by the protocol. Raises OpusUnavailable."""
    rate_hz = output_rate_hz(spec, engine_rate_hz)
    resampler = Resampler(engine_rate_hz, rate_hz)
    match spec.format:
        case "pcm":
            return _PcmEncoder(resampler, rate_hz, header=b"")
        case "wav":
            return _PcmEncoder(resampler, rate_hz, header=_wav_header(rate_hz))
        case "opus_packets":
            return _OpusPackets(resampler, rate_hz, spec.opus_bitrate)
        case "opus":
            return _OggOpus(resampler, rate_hz, spec.opus_bitrate)


def _wav_header(rate_hz: int) -> bytes:
    """A WAV header for a stream of unknown length: both sizes 0xFFFFFFFF, mono s16le."""
    unknown = 0xFFFFFFFF
    fmt = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, rate_hz, rate_hz * 2, 2, 16)
    return struct.pack("<4sI4s", b"RIFF", unknown, b"WAVE") + fmt + struct.pack("<4sI", b"data", unknown)


class _PcmEncoder:
    def __init__(self, resampler: Resampler, rate_hz: int, header: bytes) -> None:
        self._resampler, self._rate_hz, self._header = resampler, rate_hz, header
        self._held = b""

    def encode(self, pcm: Pcm) -> list[AudioChunk]:
        self._held += self._resampler.push(pcm).tobytes()
        return self._emit() if len(self._held) >= MIN_PCM_EVENT_BYTES else []

    def drain(self) -> list[AudioChunk]:
        self._held += self._resampler.drain().tobytes()
        if not self._held:
            return []
        self._held = self._held.ljust(MIN_PCM_EVENT_BYTES, b"\0")
        return self._emit()

    def discard(self) -> None:
        self._resampler.drain()
        self._held = b""

    def close(self) -> list[AudioChunk]:
        return self.drain()

    def _emit(self) -> list[AudioChunk]:
        duration_ms = len(self._held) / 2 / self._rate_hz * 1000
        data, self._held, self._header = self._header + self._held, b"", b""
        return [AudioChunk(duration_ms, data)]


class _OpusFrames:
    """PCM of any length -> whole Opus frames."""

    def __init__(self, resampler: Resampler, rate_hz: int, bitrate: int | None) -> None:
        self._resampler = resampler
        self.rate_hz = rate_hz
        self.opus = OpusEncoder(rate_hz, bitrate)
        self._held = np.zeros(0, np.int16)
        self._is_drained = True
        self.padding_samples = 0
        """Silence that the last `drain` added behind the sound, at `rate_hz`, look-ahead excluded."""

    def push(self, pcm: Pcm) -> tuple[bytes, ...]:
        self._is_drained = False
        return self._frames(self._resampler.push(pcm))

    def drain(self) -> tuple[bytes, ...]:
        """Pads so that the sound inside the encoder's look-ahead comes out too."""
        if self._is_drained:
            return ()
        self._is_drained = True
        packets = self._frames(self._resampler.drain())
        needed = len(self._held) + self.opus.lookahead_samples
        self.padding_samples = -needed % self.opus.frame_samples
        silence = np.zeros(self.opus.lookahead_samples + self.padding_samples, np.int16)
        return packets + self._frames(silence)

    def discard(self) -> None:
        self._resampler.drain()
        self._held = self._held[:0]
        self.opus.reset()
        self._is_drained = True
        self.padding_samples = 0

    def _frames(self, pcm: Pcm) -> tuple[bytes, ...]:
        held = np.concatenate([self._held, pcm])
        size = self.opus.frame_samples
        count = len(held) // size
        self._held = held[count * size :]
        return tuple(self.opus.encode(held[i * size : (i + 1) * size]) for i in range(count))


class _OpusPackets:
    """Raw packets, all of one call in one chunk."""

    def __init__(self, resampler: Resampler, rate_hz: int, bitrate: int | None) -> None:
        self._frames = _OpusFrames(resampler, rate_hz, bitrate)

    def encode(self, pcm: Pcm) -> list[AudioChunk]:
        return self._chunk(self._frames.push(pcm))

    def drain(self) -> list[AudioChunk]:
        return self._chunk(self._frames.drain())

    def discard(self) -> None:
        self._frames.discard()

    def close(self) -> list[AudioChunk]:
        return self.drain()

    @staticmethod
    def _chunk(packets: tuple[bytes, ...]) -> list[AudioChunk]:
        return [AudioChunk(len(packets) * FRAME_MS, packets=packets)] if packets else []


class _OggOpus:
    """One Ogg stream; the headers travel with the first audio, the end mark with the last."""

    def __init__(self, resampler: Resampler, rate_hz: int, bitrate: int | None) -> None:
        self._frames = _OpusFrames(resampler, rate_hz, bitrate)
        self._scale = GRANULE_HZ // rate_hz
        self._pre_skip = self._frames.opus.lookahead_samples * self._scale
        self._writer = OggOpusWriter(input_hz=rate_hz, pre_skip=self._pre_skip, serial=secrets.randbits(32))
        self._header = self._writer.header()
        self._granule = 0
        self._has_audio = False

    def encode(self, pcm: Pcm) -> list[AudioChunk]:
        return self._chunk(self._frames.push(pcm))

    def drain(self) -> list[AudioChunk]:
        return self._chunk(self._frames.drain())

    def discard(self) -> None:
        self._frames.discard()

    def close(self) -> list[AudioChunk]:
        """The end page trims the padding of its own packets; where a drain came before, the padding is out already.
        A stream without audio stays empty."""
        self._frames.padding_samples = 0
        packets = self._frames.drain()
        self._granule += len(packets) * self._frames.opus.frame_samples * self._scale
        if not packets and not self._has_audio:
            return []
        # Sound ends `padding` before the frames do; the look-ahead is counted by the pre-skip.
        end = self._granule - self._frames.padding_samples * self._scale
        data = self._header + self._writer.page(packets, end, is_last=True)
        self._header = b""
        return [AudioChunk(len(packets) * FRAME_MS, data)]

    def _chunk(self, packets: tuple[bytes, ...]) -> list[AudioChunk]:
        if not packets:
            return []
        self._granule += len(packets) * self._frames.opus.frame_samples * self._scale
        data = self._header + self._writer.page(packets, self._granule)
        self._header, self._has_audio = b"", True
        return [AudioChunk(len(packets) * FRAME_MS, data)]
