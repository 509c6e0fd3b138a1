"""Audio out: any split of the PCM gives the same stream, lengths are exact, containers are whole."""

from __future__ import annotations

import io
import itertools
import struct

import numpy as np
import pytest
import soundfile
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kingfisher_client.sound import OpusPacketDecoder

from realtime.audio.chunk import AudioChunk
from realtime.audio.encoder import MIN_PCM_EVENT_BYTES, AudioEncoder, make_encoder
from realtime.audio.opus import FRAME_MS
from realtime.audio.resample import Resampler
from realtime.protocol.events import OutputSpec
from realtime.protocol.request import PCM_RATES_HZ

RATE_HZ = 24_000


def tone(samples: int, rate_hz: int = RATE_HZ, hz: float = 440.0) -> np.ndarray:
    return (12_000 * np.sin(2 * np.pi * hz * np.arange(samples) / rate_hz)).astype(np.int16)


def run(encoder: AudioEncoder, pcm: np.ndarray, cuts: list[int]) -> list[AudioChunk]:
    edges = [0, *sorted(cut % (len(pcm) + 1) for cut in cuts), len(pcm)]
    chunks = [c for a, b in itertools.pairwise(edges) for c in encoder.encode(pcm[a:b])]
    return chunks + encoder.close()


def joined(chunks: list[AudioChunk]) -> bytes:
    return b"".join(chunk.data + b"".join(chunk.packets) for chunk in chunks)


@settings(max_examples=25)
@given(
    st.sampled_from([("opus_packets", None), ("pcm", None), ("pcm", 8_000), ("wav", 44_100), ("pcm", 48_000)]),
    st.lists(st.integers(0, 20_000), max_size=8),
)
@example(("pcm", 8_000), [10_566])
def test_any_split_of_the_pcm_gives_the_same_stream(form: tuple, cuts: list[int]) -> None:
    """But for the silence that fills up a last short event: how much is left for it depends on the split."""
    pcm = (np.random.default_rng(1).standard_normal(12_345) * 3000).astype(np.int16)
    streams = [joined(run(make_encoder(OutputSpec(*form), RATE_HZ), pcm, c)) for c in ([], cuts)]
    short, long = sorted(streams, key=len)
    assert long.rstrip(b"\0") == short.rstrip(b"\0")
    assert len(long) - len(short) < (MIN_PCM_EVENT_BYTES if form[0] in ("pcm", "wav") else 1)


@pytest.mark.parametrize("rate_hz", PCM_RATES_HZ)
@pytest.mark.parametrize("engine_rate_hz", [24_000, 44_100])
def test_every_rate_is_true_and_joins_are_smooth(engine_rate_hz: int, rate_hz: int) -> None:
    pcm = tone(2 * engine_rate_hz, engine_rate_hz)
    encoder = make_encoder(OutputSpec("pcm", rate_hz), engine_rate_hz)
    out = np.frombuffer(joined(run(encoder, pcm, list(range(0, len(pcm), 1283)))), np.int16)
    assert abs(len(out) - 2 * rate_hz) <= 513
    spectrum = np.abs(np.fft.rfft(out[: 2 * rate_hz]))
    assert abs(np.argmax(spectrum) / 2 - 440) <= 1
    body = np.abs(np.diff(out.astype(int)))[rate_hz // 10 : -rate_hz // 10]
    assert body.max() <= 1.5 * 2 * np.pi * 440 / rate_hz * 12_000


def test_every_pcm_event_holds_whole_samples_and_more_than_1024_bytes() -> None:
    for rate_hz in (8_000, 16_000, 24_000):
        encoder = make_encoder(OutputSpec("pcm", rate_hz), RATE_HZ)
        chunks = [c for _ in range(10) for c in encoder.encode(tone(1280))] + encoder.drain() + encoder.close()
        assert all(len(c.data) > 1024 and len(c.data) % 2 == 0 for c in chunks)


def test_wav_has_one_header_at_the_very_start() -> None:
    encoder = make_encoder(OutputSpec("wav"), RATE_HZ)
    data = joined([c for _ in range(3) for c in [*encoder.encode(tone(5_000)), *encoder.drain()]] + encoder.close())
    assert data.count(b"RIFF") == 1
    assert data.startswith(b"RIFF")
    assert struct.unpack("<I", data[4:8]) == struct.unpack("<I", data[40:44]) == (0xFFFFFFFF,)
    assert len(data) - 44 == 3 * 5_000 * 2


@pytest.mark.parametrize("samples", [1, 959, 960, 961, 12_345])
def test_ogg_opus_decodes_to_the_length_that_went_in(samples: int) -> None:
    for rate_hz in (24_000, 48_000):
        data = joined(run(make_encoder(OutputSpec("opus"), rate_hz), tone(samples, rate_hz), [samples // 3]))
        decoded, at_hz = soundfile.read(io.BytesIO(data))
        assert abs(len(decoded) / at_hz - samples / rate_hz) <= 1 / 48_000


def test_ogg_opus_starts_on_time() -> None:
    click = np.zeros(4_800, np.int16)
    click[:40] = 20_000
    decoded, at_hz = soundfile.read(io.BytesIO(joined(run(make_encoder(OutputSpec("opus"), RATE_HZ), click, []))))
    assert np.argmax(np.abs(decoded) > 0.15) / at_hz <= 0.0025


def pages(data: bytes) -> list[tuple[int, int, int]]:
    """(flags, granule, sequence) of each Ogg page, found by walking the lacing."""
    found, at = [], 0
    while at < len(data):
        assert data[at : at + 4] == b"OggS"
        flags, granule, _, sequence = struct.unpack("<xBqII", data[at + 4 : at + 22])
        segments = data[at + 26]
        found.append((flags, granule, sequence))
        at += 27 + segments + sum(data[at + 27 : at + 27 + segments])
    return found


def test_an_ogg_stream_is_one_container_with_one_begin_and_one_end() -> None:
    encoder = make_encoder(OutputSpec("opus"), RATE_HZ)
    chunks = [*encoder.encode(tone(3_000)), *encoder.drain(), *encoder.encode(tone(3_000)), *encoder.close()]
    found = pages(joined(chunks))
    assert [sequence for _, _, sequence in found] == list(range(len(found)))
    assert [bool(flags & 2) for flags, _, _ in found] == [True, *[False] * (len(found) - 1)]
    assert [bool(flags & 4) for flags, _, _ in found] == [*[False] * (len(found) - 1), True]
    granules = [granule for _, granule, _ in found]
    assert granules == sorted(granules)


@pytest.mark.parametrize("form", ["opus", "opus_packets", "pcm", "wav"])
def test_a_stream_without_sound_stays_empty(form: str) -> None:
    encoder = make_encoder(OutputSpec(form), RATE_HZ)
    assert encoder.drain() == []
    assert encoder.close() == []


def test_raw_packets_are_20_ms_each_and_decode_to_the_sound() -> None:
    chunks = run(make_encoder(OutputSpec("opus_packets"), RATE_HZ), tone(24_000), [1280, 2560, 9_999])
    packets = [packet for chunk in chunks for packet in chunk.packets]
    assert sum(chunk.duration_ms for chunk in chunks) == len(packets) * FRAME_MS
    decoded = np.frombuffer(OpusPacketDecoder().decode(packets), np.int16)
    assert len(decoded) == len(packets) * 960
    spectrum = np.abs(np.fft.rfft(decoded[:48_000]))
    assert abs(np.argmax(spectrum) - 440) <= 1


@pytest.mark.parametrize("form", ["opus", "opus_packets", "pcm"])
def test_what_is_discarded_is_never_heard(form: str) -> None:
    encoder = make_encoder(OutputSpec(form, 48_000), RATE_HZ)
    encoder.encode(tone(10_000))
    encoder.discard()
    after = encoder.encode(np.zeros(24_000, np.int16)) + encoder.close()
    if form == "pcm":
        heard = np.frombuffer(joined(after), np.int16)
    else:
        packets = [p for c in after for p in c.packets]
        heard = np.frombuffer(OpusPacketDecoder().decode(packets), np.int16) if packets else np.zeros(1)
    assert np.abs(heard).max() <= 4


def test_a_resampler_can_be_drained_and_go_on() -> None:
    resampler = Resampler(24_000, 48_000)
    runs = []
    for _ in range(2):
        runs.append(np.concatenate([resampler.push(tone(5_000)), resampler.drain()]))
    assert np.array_equal(*runs)
    assert len(runs[0]) == 10_000
