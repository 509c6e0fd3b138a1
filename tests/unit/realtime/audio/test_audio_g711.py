"""Telephone audio and floats: what another decoder makes of them."""

from __future__ import annotations

import io
import itertools

import numpy as np
import numpy.typing as npt
import pytest
import soundfile

from realtime.audio.g711 import alaw_bytes, mulaw_bytes
from tests.audio_streams import RATE_HZ, Heard, encoder_of, joined, pitch_hz, run, tone

EVERY = np.arange(-32_768, 32_768).astype(np.int16)
LAWS = {"mulaw": ("ULAW", mulaw_bytes), "alaw": ("ALAW", alaw_bytes)}


def decoded(law: str, data: bytes) -> npt.NDArray[np.int16]:
    """By libsndfile."""
    raw, _ = soundfile.read(
        io.BytesIO(data), dtype="int16", format="RAW", subtype=LAWS[law][0], samplerate=8_000, channels=1
    )
    return np.asarray(raw, np.int16)


@pytest.mark.parametrize("law", LAWS)
def test_each_sample_comes_back_within_half_a_step_and_in_order(law: str) -> None:
    """As libsndfile reads it: a segment's steps are a sixteenth of its begin, those around zero are 8 or 16 apart."""
    samples = EVERY.astype(np.int32)
    heard = decoded(law, LAWS[law][1](EVERY).tobytes()).astype(np.int32)
    inside = np.abs(samples) <= 32_124
    assert (np.abs(heard - samples) <= np.abs(samples) / 32 + 16)[inside].all()
    assert (np.diff(heard) >= 0).all()


@pytest.mark.parametrize("law", LAWS)
def test_every_byte_of_a_law_comes_back_as_itself(law: str) -> None:
    data = bytes(range(256))
    again = LAWS[law][1](decoded(law, data)).tobytes()
    # µ-law has two bytes for zero.
    assert [b for a, b in zip(data, again, strict=True) if a != b] in ([], [0xFF])


@pytest.mark.parametrize("law", LAWS)
def test_events_are_whole_telephone_frames_and_silence_fills_the_last(law: str) -> None:
    encoder = encoder_of(law, 8_000)
    chunks = [*encoder.encode(tone(5_000)), *encoder.encode(tone(7)), *encoder.close()]
    assert all(len(chunk.data) % 160 == 0 and chunk.duration_ms == len(chunk.data) / 8 for chunk in chunks)
    heard = decoded(law, joined(chunks))
    assert len(heard) == 1_760  # 5007 samples at 24 kHz are 1669 at 8 kHz, in 11 frames
    assert np.abs(heard[1_690:]).max() <= 8


@pytest.mark.parametrize("law", LAWS)
def test_a_tone_stays_a_tone_at_telephone_rates(law: str) -> None:
    for rate_hz in (8_000, 16_000):
        heard = decoded(law, joined(run(encoder_of(law, rate_hz), tone(2 * RATE_HZ), range(0, 48_000, 1_111))))
        assert abs(pitch_hz(Heard(heard, rate_hz)) - 440) <= 1


@pytest.mark.parametrize("form", ["mulaw", "alaw", "f32"])
def test_chunks_are_cut_anywhere_and_the_sound_is_the_same(form: str) -> None:
    pcm = tone(10_000)
    whole = joined(run(encoder_of(form, 16_000), pcm))
    for piece in (20, 137, 2_048):
        assert joined(run(encoder_of(form, 16_000), pcm, range(0, len(pcm), piece))) == whole


def test_floats_are_the_samples_over_full_scale() -> None:
    (chunk,) = encoder_of("f32").encode(EVERY)
    samples = np.frombuffer(chunk.data, "<f4")
    assert np.array_equal(samples * 32_768, EVERY)
    assert chunk.duration_ms == pytest.approx(len(EVERY) / 24)


@pytest.mark.parametrize("form", ["mulaw", "alaw", "f32"])
def test_what_is_discarded_is_never_heard(form: str) -> None:
    quiet = np.zeros(24_000, np.int16)
    encoder = encoder_of(form, 16_000)
    encoder.encode(quiet)
    loud = encoder.encode(tone(100))
    encoder.discard()
    after = joined([*encoder.encode(quiet), *encoder.close()])
    assert form == "f32" or loud == []
    if form == "f32":
        assert not np.frombuffer(after, "<f4").any()
    else:
        assert np.abs(decoded(form, after)).max() <= 8


def test_a_stream_without_sound_stays_empty() -> None:
    for form, drain in itertools.product(("mulaw", "alaw", "f32"), (True, False)):
        encoder = encoder_of(form)
        assert encoder.encode(np.zeros(0, np.int16)) == []
        assert (encoder.drain() if drain else encoder.close()) == []
