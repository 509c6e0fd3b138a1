"""Laws of audio out: how the PCM was cut never matters, and lengths are exact."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from realtime.audio.opus import OpusEncoder
from realtime.audio.packetizer import Packetizer
from realtime.audio.pcm import MIN_EVENT_BYTES
from realtime.audio.resample import Resampler
from realtime.protocol.fish.request import PCM_RATES_HZ
from tests.audio_streams import RATE_HZ, encoder_of, heard, joined, noise, packets_of, pushed, run

SAMPLES = 12_345
CUTS = st.lists(st.integers(0, 20_000), max_size=8)
ENGINE_RATES_HZ = st.sampled_from([24_000, 44_100])


@given(st.sampled_from(["pcm", "wav"]), st.sampled_from(PCM_RATES_HZ), ENGINE_RATES_HZ, CUTS)
@example("pcm", 8_000, 24_000, [19_023, 12_002])
def test_any_split_of_the_pcm_gives_the_same_bytes(
    form: str, rate_hz: int, engine_rate_hz: int, cuts: list[int]
) -> None:
    """But for the silence that fills up a last short event: how much is left for it depends on the split."""
    whole, parts = (joined(run(encoder_of(form, rate_hz, engine_rate_hz), noise(SAMPLES), c)) for c in ([], cuts))
    assert whole.rstrip(b"\0") == parts.rstrip(b"\0")
    assert abs(len(whole) - len(parts)) < MIN_EVENT_BYTES


@given(ENGINE_RATES_HZ, CUTS)
def test_any_split_of_the_pcm_gives_the_same_packets(engine_rate_hz: int, cuts: list[int]) -> None:
    whole, parts = (run(encoder_of("opus_packets", None, engine_rate_hz), noise(SAMPLES), c) for c in ([], cuts))
    assert packets_of(whole) == packets_of(parts)


@given(CUTS)
def test_any_split_of_the_pcm_sounds_the_same_in_ogg(cuts: list[int]) -> None:
    """Pages follow the calls; what they hold does not."""
    whole, parts = (run(encoder_of("opus"), noise(SAMPLES), c) for c in ([], cuts))
    assert np.array_equal(heard("opus", whole).pcm, heard("opus", parts).pcm)


@given(st.sampled_from(PCM_RATES_HZ), ENGINE_RATES_HZ, CUTS)
def test_resampling_in_pieces_equals_resampling_at_once(rate_hz: int, engine_rate_hz: int, cuts: list[int]) -> None:
    pcm = noise(SAMPLES)
    whole, parts = Resampler(engine_rate_hz, rate_hz), Resampler(engine_rate_hz, rate_hz)
    edges = [0, *sorted(cut % SAMPLES for cut in cuts), SAMPLES]
    at_once = np.concatenate([whole.push(pcm), whole.drain()])
    in_pieces = [parts.push(pcm[a:b]) for a, b in itertools.pairwise(edges)]
    assert np.array_equal(at_once, np.concatenate([*in_pieces, parts.drain()]))
    assert abs(len(at_once) - SAMPLES * rate_hz / engine_rate_hz) <= 1


@given(st.lists(st.integers(1, 5_000), min_size=1, max_size=4))
def test_each_run_fills_whole_packets_and_keeps_its_look_ahead(runs: list[int]) -> None:
    """However many samples a run has: drained, its packets hold all of them behind the look-ahead, and less than one
    packet of silence."""
    packetizer = Packetizer(Resampler(RATE_HZ, RATE_HZ), OpusEncoder(RATE_HZ, 32_000))
    frame, lookahead = packetizer.opus.frame_samples, packetizer.opus.lookahead_samples
    for samples in runs:
        packets = packetizer.push(noise(samples))
        tail, padding = packetizer.drain()
        assert (len(packets) + len(tail)) * frame == samples + lookahead + padding
        assert 0 <= padding < frame
        assert packetizer.drain() == ((), 0)


@given(st.lists(st.integers(1, 5_000), min_size=1, max_size=4), st.sampled_from([8_000, 24_000]))
def test_every_pcm_event_is_long_enough_for_old_clients_and_holds_whole_samples(runs: list[int], rate_hz: int) -> None:
    encoder = encoder_of("pcm", rate_hz)
    chunks = [
        c for samples in runs for c in [*pushed(encoder, noise(samples), range(0, samples, 1280)), *encoder.drain()]
    ]
    assert all(len(chunk.data) > 1024 and len(chunk.data) % 2 == 0 for chunk in chunks)
    assert encoder.close() == []
