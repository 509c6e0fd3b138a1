"""Bare samples and WAV."""

from __future__ import annotations

import struct

import numpy as np

from tests.audio_streams import encoder_of, heard, joined, run, tone


def test_samples_pass_untouched_at_the_engines_rate() -> None:
    assert np.array_equal(heard("pcm", run(encoder_of("pcm"), tone(12_345), [100, 5_000])).pcm, tone(12_345))


def test_wav_has_one_header_at_the_very_start() -> None:
    encoder = encoder_of("wav")
    data = joined([c for _ in range(3) for c in [*encoder.encode(tone(5_000)), *encoder.drain()]] + encoder.close())
    assert data.count(b"RIFF") == 1
    assert data.startswith(b"RIFF")
    assert struct.unpack("<I", data[4:8]) == struct.unpack("<I", data[40:44]) == (0xFFFFFFFF,)
    assert struct.unpack("<HHIIHH", data[20:36]) == (1, 1, 24_000, 48_000, 2, 16)
    assert len(data) - 44 == 3 * 5_000 * 2


def test_the_header_of_a_cancelled_start_comes_with_the_next_sound() -> None:
    encoder = encoder_of("wav")
    assert encoder.encode(tone(100)) == []
    encoder.discard()
    assert joined(encoder.encode(tone(5_000))).startswith(b"RIFF")


def test_a_short_rest_is_held_and_lengthened_with_silence_at_the_end() -> None:
    encoder = encoder_of("pcm")
    assert encoder.encode(tone(200)) == []
    (chunk,) = encoder.drain()
    samples = np.frombuffer(chunk.data, np.int16)
    assert np.array_equal(samples[:200], tone(200))
    assert not samples[200:].any()
    assert chunk.duration_ms == len(samples) / 24
