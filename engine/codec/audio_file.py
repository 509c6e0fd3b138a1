"""Reference clips: the bytes of any common audio file -> mono float32 at the codec's rate.

libsndfile (in the soundfile package) sniffs the content: wav of any depth, flac, ogg vorbis and opus, mp3, aiff.
Bytes are never taken for a path, and a clip is measured while it is read, so that a small file cannot unpack into
gigabytes.
"""

from __future__ import annotations

import io

import numpy as np
import numpy.typing as npt
import soundfile
import soxr

from engine.api import BadReference

__all__ = ["MAX_CLIP_S", "MIN_CLIP_S", "decode_clip"]

MIN_CLIP_S = 1.0
"""Under a second there is too little voice to condition on."""
MAX_CLIP_S = 30.0
"""Longer references crowd out the context and add nothing."""

MAX_CLIP_SAMPLES = 30 * 8 * 48_000
"""Over all channels. A small file may claim many channels at a high rate, and swell to a gigabyte of silence."""

_BLOCK_FRAMES = 65_536
_CANCELLED_POWER = 1e-3
"""A mix with less than this share of its channels' power has cancelled itself out (inverted stereo)."""


def decode_clip(
    data: bytes, rate_hz: int, *, min_s: float = MIN_CLIP_S, max_s: float = MAX_CLIP_S
) -> npt.NDArray[np.float32]:
    """Returns float32 [N] at `rate_hz`. Raises BadReference saying what is wrong and which limit applies."""
    if not data:
        raise BadReference("the reference clip is empty")
    try:
        with soundfile.SoundFile(io.BytesIO(data)) as file:
            source_hz = file.samplerate
            if not 4_000 <= source_hz <= 384_000:
                raise BadReference(f"the reference clip claims a sample rate of {source_hz} Hz")
            samples = _read(file, int(max_s * source_hz) + 1)
    except (soundfile.LibsndfileError, RuntimeError, TypeError, ValueError) as error:
        if isinstance(error, BadReference):
            raise
        raise BadReference(f"the reference clip is not readable as wav, flac, ogg or mp3: {error}") from None
    duration_s = len(samples) / source_hz
    if duration_s > max_s:
        raise BadReference(f"the reference clip is longer than {max_s:g} s")
    if duration_s < min_s:
        raise BadReference(f"the reference clip lasts {duration_s:.2f} s; at least {min_s:g} s are needed")
    mono = _downmix(samples)
    if not np.isfinite(mono).all():
        raise BadReference("the reference clip holds values that are not numbers")
    if source_hz != rate_hz:
        mono = soxr.resample(mono, source_hz, rate_hz, quality="HQ")
    return np.ascontiguousarray(mono, dtype=np.float32)


def _read(file: soundfile.SoundFile, limit_frames: int) -> npt.NDArray[np.float32]:
    """float32 [frames, channels], no more than one block past `limit_frames`."""
    if file.channels > 8:
        raise BadReference(f"the reference clip has {file.channels} channels; at most 8 are read")
    blocks: list[npt.NDArray[np.float32]] = []
    frames = 0
    while frames < limit_frames:
        block = file.read(_BLOCK_FRAMES, dtype="float32", always_2d=True)
        if not len(block):
            break
        blocks.append(block)
        frames += len(block)
        if frames < limit_frames and frames * file.channels > MAX_CLIP_SAMPLES:
            raise BadReference(f"the reference clip holds more than {MAX_CLIP_SAMPLES} samples over its channels")
    if not blocks:
        raise BadReference("the reference clip holds no samples")
    return np.concatenate(blocks)


def _downmix(samples: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """[N, channels] -> [N]: the mean, or the loudest channel where the mean cancels."""
    mono: npt.NDArray[np.float32] = samples.mean(axis=1)
    if samples.shape[1] > 1:
        powers = np.square(samples, dtype=np.float64).mean(axis=0)
        if np.square(mono, dtype=np.float64).mean() < _CANCELLED_POWER * powers.max():
            mono = samples[:, int(powers.argmax())]
    return mono
