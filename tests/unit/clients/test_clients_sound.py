"""Files that the client writes, and packets that it decodes."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import pytest
import soundfile
from kingfisher_client import OpusPacketDecoder, save_wav
from opuslib import Encoder


@pytest.mark.parametrize("samples", [0, 1, 24_001])
def test_a_saved_wav_states_its_true_sizes(tmp_path: Path, samples: int) -> None:
    path = tmp_path / "said.wav"
    pcm = np.arange(samples, dtype=np.int16)
    save_wav(path, pcm.tobytes(), 24_000)
    with wave.open(str(path)) as file:
        assert (file.getnframes(), file.getframerate(), file.getnchannels()) == (samples, 24_000, 1)
    assert int.from_bytes(path.read_bytes()[4:8], "little") == path.stat().st_size - 8
    read, rate_hz = soundfile.read(path, dtype="int16")
    assert rate_hz == 24_000
    assert np.array_equal(read, pcm)


def test_packets_decode_to_20_ms_each() -> None:
    encoder = Encoder(48_000, 1, "voip")
    tone = (8000 * np.sin(np.arange(960 * 10) * 2 * np.pi * 440 / 48_000)).astype(np.int16)
    packets = [encoder.encode(tone[i : i + 960].tobytes(), 960) for i in range(0, len(tone), 960)]
    whole = OpusPacketDecoder().decode(packets)
    assert len(whole) == 2 * 960 * 10
    in_pieces = OpusPacketDecoder()
    assert b"".join(in_pieces.decode([packet]) for packet in packets) == whole
