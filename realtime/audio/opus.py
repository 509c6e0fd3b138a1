"""Opus packets from PCM: the only place that touches libopus.

Speech mode at complexity 5, by measurement: nine clips of the bundled voice (33 s), 24 kHz, 32 kbit/s, libopus 1.3.1,
wide-band PESQ, thread time for each packet on a busy 2-core machine:

| mode | complexity | PESQ (worst clip) | µs | look-ahead ms |
|---|---|---|---|---|
| VOIP | 3 | 3.97 (3.43) | 118 | 6.5 |
| **VOIP** | **5** | **4.31 (4.08)** | **136** | **6.5** |
| VOIP | 10 | 4.44 (4.38) | 255 | 6.5 |
| AUDIO | 5 | 3.64 (3.19) | 55 | 6.5 |
| RESTRICTED_LOWDELAY | 10 | 3.64 (3.09) | 71 | 2.5 |

Low delay would save 4 ms and half the time, and costs what a listener hears first; at 48 kbit/s it still does (4.24 at
best against 4.46). 136 µs are 0.7 % of a core for a stream. A recogniser loses nothing: Whisper base heard 51 of
322 words of the bundled voice wrong at 32 kbit/s, and 50 in the samples themselves.

The packets of a chunk are made in one call (csrc/audio/packets.cpp), which gives up the interpreter's lock once. A call
for each packet must take the lock back each time, and waits as long as another thread may keep it: beside one thread
that computes in Python a packet took 780 µs of wall time by single calls and 200 µs by calls of 21.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.native_build import BuildFailed, CompilerMissing, build_library

__all__ = ["FRAME_MS", "OPUS_RATES_HZ", "OpusEncoder", "OpusUnavailable", "prepare_opus"]

log = logging.getLogger(__name__)

FRAME_MS = 20
OPUS_RATES_HZ = (8_000, 12_000, 16_000, 24_000, 48_000)
COMPLEXITY = 5
MAX_PACKET_BYTES = 1_276
"""Of one frame (RFC 6716, 3.2.1: 1275 and the byte in front)."""

Pcm = npt.NDArray[np.int16]

_Pack = Callable[[Any, Pcm, int], tuple[bytes, ...]]
"""(opuslib's encoder, whole frames, samples of a frame) -> their packets. Raises opuslib.OpusError."""


class OpusUnavailable(RuntimeError):
    """libopus is not installed; the message says what to install."""


def _library() -> Any:
    """Loaded on first use: PCM and WAV work without libopus."""
    try:
        import opuslib
    except Exception as error:  # opuslib raises a bare Exception when it cannot find the library
        raise OpusUnavailable(
            "Opus needs the system library libopus (Debian: apt-get install libopus0; macOS: brew install opus and "
            "DYLD_FALLBACK_LIBRARY_PATH=$(brew --prefix)/lib); formats pcm and wav work without it"
        ) from error
    return opuslib


def prepare_opus() -> None:
    """Compile and load what the first encoder would wait for."""
    try:
        _library()
    except OpusUnavailable:
        return  # said to whoever asks for Opus
    _pack()


@cache
def _pack() -> _Pack:
    try:
        return _native_pack(ctypes.CDLL(str(build_library("audio/packets.cpp"))))
    except (CompilerMissing, BuildFailed, OSError) as error:
        log.warning("Opus packets are encoded one by one, which costs more under load: %s", error)
        return _pack_one_by_one


def _native_pack(library: Any) -> _Pack:
    opuslib = _library()
    encode_address = ctypes.cast(opuslib.api.libopus.opus_encode, ctypes.c_void_p)
    call = library.kf_opus_packets
    call.restype = ctypes.c_int32
    pointer, number = ctypes.c_void_p, ctypes.c_int32
    call.argtypes = (pointer, pointer, pointer, number, number, pointer, number, pointer)

    def pack(encoder: Any, frames: Pcm, frame_samples: int) -> tuple[bytes, ...]:
        pcm = np.ascontiguousarray(frames)
        count = len(pcm) // frame_samples
        out = np.empty(count * MAX_PACKET_BYTES, np.uint8)
        lengths = (ctypes.c_int32 * count)()
        written = call(
            encode_address,
            encoder.encoder_state,
            pcm.ctypes.data,
            frame_samples,
            count,
            out.ctypes.data,
            MAX_PACKET_BYTES,
            lengths,
        )
        if written < 0:
            raise opuslib.OpusError(written)
        data, packets, start = out[:written].tobytes(), [], 0
        for length in lengths:
            packets.append(data[start : start + length])
            start += length
        return tuple(packets)

    return pack


def _pack_one_by_one(encoder: Any, frames: Pcm, frame_samples: int) -> tuple[bytes, ...]:
    starts = range(0, len(frames), frame_samples)
    return tuple(encoder.encode(frames[i : i + frame_samples].tobytes(), frame_samples) for i in starts)


class OpusEncoder:
    """20 ms packets of mono int16 at one of OPUS_RATES_HZ. Not thread-safe: one owner."""

    def __init__(self, rate_hz: int, bitrate: int | None) -> None:
        """`bitrate` in bit/s; None lets libopus choose. Raises OpusUnavailable."""
        opuslib = _library()
        self._encoder = opuslib.Encoder(rate_hz, 1, opuslib.APPLICATION_VOIP)
        self._encoder.complexity = COMPLEXITY
        if bitrate is not None:
            self._encoder.bitrate = bitrate
        self._pack = _pack()
        self.rate_hz = rate_hz
        self.frame_samples = rate_hz * FRAME_MS // 1000
        self.lookahead_samples: int = self._encoder.lookahead
        """Delay of the decoder's output against the input, at `rate_hz`."""

    def encode(self, frames: Pcm) -> tuple[bytes, ...]:
        """int16 [n * frame_samples] -> n packets."""
        assert len(frames) % self.frame_samples == 0, "packets hold whole frames"
        return self._pack(self._encoder, frames, self.frame_samples) if len(frames) else ()

    def reset(self) -> None:
        """Forget the signal so far, so that nothing of it rings on."""
        self._encoder.reset_state()
