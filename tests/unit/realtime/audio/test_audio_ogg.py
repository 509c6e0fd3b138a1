"""Ogg Opus: one container, exact lengths, and a clean bill from the reference tools where they are installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from realtime.audio.encoder import make_encoder
from realtime.protocol.events import OutputSpec
from tests.audio_streams import RATE_HZ, encoder_of, heard, joined, noise, pushed, run, tone

BOS, EOS = 2, 4


def pages(data: bytes) -> list[tuple[int, int, int]]:
    """(flags, granule, sequence) of each page, found by walking the lacing."""
    found, at = [], 0
    while at < len(data):
        assert data[at : at + 4] == b"OggS"
        granule, sequence = (
            int.from_bytes(data[at + 6 : at + 14], "little"),
            int.from_bytes(data[at + 18 : at + 22], "little"),
        )
        segments = data[at + 26]
        found.append((data[at + 5], granule, sequence))
        at += 27 + segments + sum(data[at + 27 : at + 27 + segments])
    return found


@pytest.mark.parametrize("samples", [1, 959, 960, 961, 12_345])
@pytest.mark.parametrize("rate_hz", [24_000, 48_000, 44_100])
def test_the_decoded_length_is_the_length_that_went_in(samples: int, rate_hz: int) -> None:
    chunks = run(encoder_of("opus", None, rate_hz), tone(samples, rate_hz), [samples // 3])
    assert abs(heard("opus", chunks).seconds - samples / rate_hz) <= 1 / 48_000


def test_sound_starts_on_time() -> None:
    click = np.zeros(4_800, np.int16)
    click[:40] = 20_000
    sound = heard("opus", run(encoder_of("opus"), click))
    assert np.argmax(np.abs(sound.pcm) > 5_000) / sound.rate_hz <= 0.0025


def spoken_in_runs(runs: int, closing_run: bool) -> bytes:
    encoder = encoder_of("opus")
    chunks = [c for _ in range(runs) for c in [*pushed(encoder, tone(3_000), [1_000]), *encoder.drain()]]
    if closing_run:
        chunks += encoder.encode(tone(3_000))
    return joined(chunks + encoder.close())


@pytest.mark.parametrize(("runs", "closing_run"), [(0, True), (1, False), (3, True), (3, False)])
def test_a_stream_is_one_container_with_one_begin_and_one_end(runs: int, closing_run: bool) -> None:
    found = pages(spoken_in_runs(runs, closing_run))
    assert [sequence for _, _, sequence in found] == list(range(len(found)))
    assert [flags & BOS for flags, _, _ in found] == [BOS, *[0] * (len(found) - 1)]
    assert [flags & EOS for flags, _, _ in found] == [*[0] * (len(found) - 1), EOS]
    granules = [granule for _, granule, _ in found]
    assert granules == sorted(granules)


def test_an_end_behind_a_drain_adds_nothing_to_hear() -> None:
    encoder = encoder_of("opus")
    spoken = [*encoder.encode(tone(3_000)), *encoder.drain()]
    (end,) = encoder.close()
    assert end.duration_ms == 0
    sent_s = sum(chunk.duration_ms for chunk in spoken) / 1000
    assert heard("opus", [*spoken, end]).seconds == pytest.approx(sent_s - pre_skip(joined(spoken)) / 48_000)


def pre_skip(data: bytes) -> int:
    at = data.index(b"OpusHead") + 10
    return int.from_bytes(data[at : at + 2], "little")


def test_half_a_minute_in_one_call_takes_several_pages() -> None:
    """A page has room for 255 segments only."""
    encoder = make_encoder(OutputSpec("opus", None, 128_000), RATE_HZ)
    chunks = [*encoder.encode(noise(30 * RATE_HZ)), *encoder.close()]
    assert heard("opus", chunks).seconds == 30


@pytest.mark.skipif(shutil.which("opusinfo") is None, reason="opusinfo (opus-tools) is not installed")
@pytest.mark.parametrize(("runs", "closing_run"), [(0, True), (1, False), (3, True), (3, False)])
def test_opusinfo_has_nothing_to_warn_of(runs: int, closing_run: bool, tmp_path: Path) -> None:
    file = tmp_path / "speech.opus"
    file.write_bytes(spoken_in_runs(runs, closing_run))
    told = subprocess.run(["opusinfo", str(file)], capture_output=True, text=True, timeout=60)
    assert told.returncode == 0, told.stderr
    assert "WARNING" not in told.stdout + told.stderr
