"""The bundled voice by way of another vendor's protocol: every form holds the same speech."""

from __future__ import annotations

import io
from collections.abc import Iterator

import httpx
import numpy as np
import numpy.typing as npt
import pytest
import soundfile
import soxr

from tests.server_process import ServerProcess, server_process

RAW = {
    "pcm_24000": ("PCM_16", 24_000),
    "pcm_44100": ("PCM_16", 44_100),
    "ulaw_8000": ("ULAW", 8_000),
    "alaw_8000": ("ALAW", 8_000),
}
FORMS = (
    "pcm_44100",
    "wav_22050",
    "ulaw_8000",
    "alaw_8000",
    "mp3_22050_32",
    "mp3_44100_128",
    "opus_48000_32",
    "opus_48000_64",
)
COMPARED_HZ = 8_000
"""What the narrowest of them holds."""


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with server_process("--slots", "2") as running:
        yield running


def speech(server: ServerProcess, form: str) -> npt.NDArray[np.float32]:
    """The same sentence in this form, decoded by libsndfile, at COMPARED_HZ."""
    path = f"/v1/text-to-speech/hazel/stream?output_format={form}"
    asked = {"text": "Please wait a moment while I look that up.", "seed": 7}
    answer = httpx.post(server.http + path, json=asked, timeout=60, trust_env=False)
    assert answer.status_code == 200
    options = {}
    if form in RAW:
        subtype, rate_hz = RAW[form]
        options = {"format": "RAW", "subtype": subtype, "samplerate": rate_hz, "channels": 1}
    samples, rate_hz = soundfile.read(io.BytesIO(answer.content), dtype="float32", **options)
    return np.asarray(soxr.resample(samples, rate_hz, COMPARED_HZ), np.float32)


@pytest.fixture(scope="module")
def plain(server: ServerProcess) -> npt.NDArray[np.float32]:
    return speech(server, "pcm_24000")


@pytest.mark.parametrize("form", FORMS)
def test_each_form_holds_the_same_speech(server: ServerProcess, plain: npt.NDArray[np.float32], form: str) -> None:
    heard = speech(server, form)
    assert abs(len(heard) - len(plain)) <= 0.1 * COMPARED_HZ  # the last frame's silence, a codec's delay
    size = len(heard) + len(plain)
    likeness = np.fft.irfft(np.fft.rfft(heard, size) * np.conj(np.fft.rfft(plain, size)), size)
    assert likeness.max() / (np.linalg.norm(heard) * np.linalg.norm(plain)) > 0.9  # Opus for speech shifts phases
