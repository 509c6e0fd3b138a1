"""WAV files of every kind of samples, as libsndfile reads them."""

from __future__ import annotations

import io
from typing import get_args

import pytest
import soundfile

from realtime.audio.wav import Samples, wav_header
from tests.audio_streams import encoder_of, joined, run, tone

SUBTYPES = {"pcm": "PCM_16", "f32": "FLOAT", "mulaw": "ULAW", "alaw": "ALAW"}
SAMPLE_BYTES = {"pcm": 2, "f32": 4, "mulaw": 1, "alaw": 1}


@pytest.mark.parametrize("samples", get_args(Samples))
def test_a_file_with_true_sizes_is_what_it_says(samples: Samples) -> None:
    data = joined(run(encoder_of(samples, 8_000), tone(24_000)))
    with soundfile.SoundFile(io.BytesIO(wav_header(8_000, len(data), samples) + data)) as file:
        assert (file.subtype, file.samplerate, file.channels) == (SUBTYPES[samples], 8_000, 1)
        assert file.frames == len(data) / SAMPLE_BYTES[samples]


@pytest.mark.parametrize("samples", ["f32", "mulaw", "alaw"])
def test_a_stream_is_one_header_and_the_bare_samples(samples: str) -> None:
    bare = joined(run(encoder_of(samples, 16_000), tone(30_000), [1_000, 20_000]))
    stream = joined(run(encoder_of(f"wav_{samples}", 16_000), tone(30_000), [1_000, 20_000]))
    assert stream.count(b"RIFF") == 1
    assert stream == stream[: -len(bare)] + bare
    with soundfile.SoundFile(io.BytesIO(stream)) as file:
        assert (file.subtype, file.samplerate) == (SUBTYPES[samples], 16_000)
        assert len(file.read()) == len(bare) / SAMPLE_BYTES[samples]


def test_nothing_said_is_an_empty_file() -> None:
    assert encoder_of("wav_mulaw").close() == []
