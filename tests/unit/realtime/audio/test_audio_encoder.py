"""Every format: rates are true, joins smooth, nothing remains, nothing is heard that was discarded."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from realtime.audio.encoder import make_encoder
from realtime.audio.opus import OpusUnavailable
from realtime.protocol.events import OutputSpec
from realtime.protocol.fish.request import PCM_RATES_HZ
from tests.audio_streams import RATE_HZ, encoder_of, heard, pitch_hz, run, tone

FORMS = ["opus", "opus_packets", "pcm", "wav"]


@pytest.mark.parametrize("engine_rate_hz", [24_000, 44_100])
@pytest.mark.parametrize(
    ("form", "rate_hz"),
    [*(("pcm", rate) for rate in PCM_RATES_HZ), ("wav", None), ("opus", 48_000), ("opus_packets", None)],
)
@pytest.mark.parametrize("piece", [20, 137, 2048])
def test_every_rate_is_true_and_joins_are_smooth(
    form: str, rate_hz: int | None, engine_rate_hz: int, piece: int
) -> None:
    """A filter or a codec that starts afresh in each piece clicks at each join."""
    pcm = tone(2 * engine_rate_hz, engine_rate_hz)
    chunks = run(encoder_of(form, rate_hz, engine_rate_hz), pcm, range(0, len(pcm), piece))
    sound = heard(form, chunks, rate_hz or engine_rate_hz)
    assert abs(sound.seconds - 2) <= 0.065  # the shortest event at 8 kHz lasts 64 ms, and most of it may be silence
    assert abs(pitch_hz(sound) - 440) <= 1
    margin = sound.rate_hz // 10
    steps = np.abs(np.diff(sound.pcm.astype(int)))[margin:-margin]
    assert steps.max() <= 1.5 * 2 * np.pi * 440 / sound.rate_hz * 12_000


@pytest.mark.parametrize("form", FORMS)
def test_a_stream_without_sound_stays_empty(form: str) -> None:
    encoder = encoder_of(form)
    assert encoder.encode(np.zeros(0, np.int16)) == []
    assert encoder.drain() == []
    assert encoder.close() == []


@pytest.mark.parametrize("form", FORMS)
def test_a_drain_lets_everything_out(form: str) -> None:
    encoder = encoder_of(form)
    for samples in (5_000, 1, 7_777):
        chunks = [*encoder.encode(tone(samples)), *encoder.drain()]
        assert sum(chunk.duration_ms for chunk in chunks) >= samples / RATE_HZ * 1000
        assert encoder.drain() == []


@pytest.mark.parametrize("form", FORMS)
def test_what_is_discarded_is_never_heard(form: str) -> None:
    quiet = np.zeros(24_000, np.int16)
    encoder = encoder_of(form, 48_000 if form in ("pcm", "wav") else None)
    lead = encoder.encode(quiet)
    assert encoder.encode(tone(100)) == []
    encoder.discard()
    after = encoder.encode(quiet) + encoder.close()
    assert np.abs(heard(form, lead + after).pcm).max() <= 4


def test_without_libopus_the_error_names_the_package_and_pcm_still_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opuslib", None)  # importing it fails from here on
    for form in ("opus", "opus_packets"):
        with pytest.raises(OpusUnavailable, match="libopus0"):
            encoder_of(form)
    for form in ("pcm", "wav"):
        assert np.array_equal(heard(form, run(encoder_of(form), tone(5_000))).pcm, tone(5_000))


@pytest.mark.parametrize("engine_rate_hz", [24_000, 48_000, 44_100])
def test_opus_takes_the_rates_it_knows_as_they_are(engine_rate_hz: int) -> None:
    """Without a resampler in between, the first 20 ms give the first packet."""
    encoder = make_encoder(OutputSpec("opus_packets"), engine_rate_hz)
    chunks = encoder.encode(tone(engine_rate_hz // 50, engine_rate_hz))
    assert len(chunks) == (0 if engine_rate_hz == 44_100 else 1)
