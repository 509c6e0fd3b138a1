"""Raw Opus packets, by a decoder of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from engine.native_build import CompilerMissing
from realtime.audio import opus
from realtime.audio.opus import FRAME_MS, OpusEncoder
from tests.audio_streams import RATE_HZ, Pcm, encoder_of, heard, noise, packets_of, pitch_hz, run, tone


def test_packets_are_20_ms_each_and_decode_to_the_sound() -> None:
    chunks = run(encoder_of("opus_packets"), tone(24_000), [1280, 2560, 9_999])
    packets = packets_of(chunks)
    assert sum(chunk.duration_ms for chunk in chunks) == len(packets) * FRAME_MS
    assert len(chunks) == 5  # one for each piece and one for the end, however many packets that gave
    sound = heard("opus_packets", chunks)
    assert sound.seconds * 1000 == len(packets) * FRAME_MS
    assert abs(pitch_hz(sound) - 440) <= 1


def test_a_bit_rate_is_kept() -> None:
    pcm = (np.random.default_rng(2).standard_normal(5 * RATE_HZ) * 3000).astype(np.int16)
    for bitrate in (16_000, 32_000, 64_000, 128_000):
        encoder = OpusEncoder(RATE_HZ, bitrate)
        packets = encoder.encode(pcm)
        assert 0.7 * bitrate <= sum(map(len, packets)) * 8 / 5 <= 1.15 * bitrate


def one_by_one(pcm: Pcm, frame_samples: int) -> tuple[bytes, ...]:
    encoder = OpusEncoder(RATE_HZ, 32_000)
    calls = [encoder.encode(pcm[i : i + frame_samples]) for i in range(0, len(pcm), frame_samples)]
    assert {len(packets) for packets in calls} == {1}
    return tuple(packet for packets in calls for packet in packets)


def test_packets_do_not_depend_on_how_many_a_call_makes() -> None:
    pcm = noise(50 * 480)
    assert OpusEncoder(RATE_HZ, 32_000).encode(pcm) == one_by_one(pcm, 480)
    assert OpusEncoder(RATE_HZ, 32_000).encode(pcm[:0]) == ()


def test_without_a_compiler_the_packets_are_the_same(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(source: str) -> Path:
        raise CompilerMissing("there is none")

    pcm = noise(20 * 480)
    with monkeypatch.context() as patch:
        patch.setattr(opus, "build_library", refuse)
        patch.setattr(opus, "_pack", opus._pack.__wrapped__)
        slow = OpusEncoder(RATE_HZ, 32_000).encode(pcm)
    assert "one by one" in caplog.text
    assert slow == OpusEncoder(RATE_HZ, 32_000).encode(pcm)


def test_libopus_is_not_loaded_before_it_is_needed() -> None:
    """A server without it starts, and speaks PCM."""
    check = "import sys, realtime.audio.encoder; sys.exit('opuslib' in sys.modules)"
    subprocess.run([sys.executable, "-c", check], check=True, timeout=60)
