"""Raw Opus packets, by a decoder of their own."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

from realtime.audio.opus import FRAME_MS, OpusEncoder
from tests.audio_streams import RATE_HZ, encoder_of, heard, packets_of, pitch_hz, run, tone


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
        packets = [encoder.encode(pcm[i : i + 480]) for i in range(0, len(pcm), 480)]
        assert 0.7 * bitrate <= sum(map(len, packets)) * 8 / 5 <= 1.15 * bitrate


def test_libopus_is_not_loaded_before_it_is_needed() -> None:
    """A server without it starts, and speaks PCM."""
    check = "import sys, realtime.audio.encoder; sys.exit('opuslib' in sys.modules)"
    subprocess.run([sys.executable, "-c", check], check=True, timeout=60)
