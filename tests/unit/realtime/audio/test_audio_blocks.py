"""MP3, AAC and FLAC, heard with other people's decoders: one stream each, all of it, at the right pitch."""

from __future__ import annotations

import io

import av
import numpy as np
import pytest

from realtime.audio.chunk import AudioChunk
from realtime.audio.encoder import make_encoder
from realtime.audio.libav import MP3_RATES_HZ
from realtime.protocol.events import OutputSpec
from tests.audio_streams import RATE_HZ, Heard, encoder_of, joined, pitch_hz, run, tone

FORMS = ("mp3", "aac", "flac")


def decoded(chunks: list[AudioChunk]) -> Heard:
    with av.open(io.BytesIO(joined(chunks))) as container:
        frames = list(container.decode(audio=0))
    samples = np.concatenate([frame.to_ndarray().reshape(-1) for frame in frames])
    if samples.dtype != np.int16:
        samples = np.rint(samples * 32_767).astype(np.int16)
    return Heard(samples, frames[0].sample_rate)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("rate_hz", MP3_RATES_HZ)
def test_every_rate_is_true_and_nothing_is_missing(form: str, rate_hz: int) -> None:
    pcm = tone(2 * RATE_HZ)
    chunks = run(encoder_of(form, rate_hz), pcm, range(0, len(pcm), 777))
    sound = decoded(chunks)
    assert sound.rate_hz == rate_hz
    assert abs(pitch_hz(sound) - 440) <= 1
    assert 2.0 <= sound.seconds <= 2.0 + 4 * 1152 / rate_hz + 0.06
    assert sum(chunk.duration_ms for chunk in chunks) == pytest.approx(sound.seconds * 1000)


@pytest.mark.parametrize("form", FORMS)
def test_however_the_sound_was_cut_the_bytes_are_the_same(form: str) -> None:
    pcm = tone(20_000)
    assert joined(run(encoder_of(form, 44_100), pcm)) == joined(run(encoder_of(form, 44_100), pcm, [1, 333, 9_000]))


@pytest.mark.parametrize("form", FORMS)
def test_each_drain_lets_its_run_out_whole(form: str) -> None:
    """Also the second: what the codec holds back must be counted once."""
    encoder = encoder_of(form)
    so_far: list[AudioChunk] = []
    gain_of_lame = 0.95 if form == "mp3" else 1.0  # it leaves room for its own overshoot
    run_energy = (gain_of_lame**2) * (tone(5_000).astype(float) ** 2).sum()
    for runs in (1, 2, 3):
        so_far += encoder.encode(tone(5_000)) + encoder.drain()
        assert encoder.drain() == []
        assert (decoded(so_far).pcm.astype(float) ** 2).sum() / run_energy == pytest.approx(runs, rel=0.02)


@pytest.mark.parametrize("form", FORMS)
def test_what_is_discarded_is_hardly_heard(form: str) -> None:
    quiet = np.zeros(24_000, np.int16)
    encoder = encoder_of(form)
    chunks = encoder.encode(quiet)
    assert encoder.encode(tone(60)) == []
    encoder.discard()
    chunks += encoder.encode(quiet) + encoder.close()
    assert np.abs(decoded(chunks).pcm).max() <= 4


@pytest.mark.parametrize("form", FORMS)
def test_a_stream_without_sound_has_no_bytes(form: str) -> None:
    encoder = encoder_of(form)
    assert [*encoder.encode(np.zeros(0, np.int16)), *encoder.drain(), *encoder.close()] == []


@pytest.mark.parametrize("bitrate", [64_000, 128_000, 192_000])
def test_the_bit_rate_of_mp3_is_kept(bitrate: int) -> None:
    pcm = tone(4 * RATE_HZ)
    chunks = run(make_encoder(OutputSpec("mp3", 44_100, mp3_bitrate=bitrate), RATE_HZ), pcm)
    seconds = sum(chunk.duration_ms for chunk in chunks) / 1000
    assert len(joined(chunks)) * 8 / seconds == pytest.approx(bitrate, rel=0.02)
