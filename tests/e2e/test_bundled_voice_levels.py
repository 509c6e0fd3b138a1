"""Voices are equally loud, clones of any clip too, and the speed of speech leaves its pitch and level alone."""

from __future__ import annotations

import io
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest
import soundfile
from kingfisher_client import AsyncClient

from engine.codec.level import speech_rms
from tests.server_process import ServerProcess, server_process

RATE_HZ = 24_000
SENTENCES = ("Your order will arrive on Friday morning.", "There is a small garden behind the house.")
CLIP = "This is the clip that will be cloned, and it is long enough for that, I should think."
EQUALLY_LOUD_DB = 2.5
"""Between voices and clones: 1.4 dB between the bundled voices, and single sentences differ by 0.6 dB."""
SAME_PITCH = 0.06
"""A semitone; the medians of single sentences differed by 2 % over the speeds."""

Sound = npt.NDArray[np.float32]


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with server_process("--slots", "2") as running:
        yield running


async def said(server: ServerProcess, text: str, **request: object) -> Sound:
    async with AsyncClient(server.ws) as client:
        sound = client.speak(text, format="pcm", sample_rate=RATE_HZ, seed=1, **request)
        return np.frombuffer(b"".join([audio.data async for audio in sound]), np.int16).astype(np.float32) / 32768


async def level_db(server: ServerProcess, **request: object) -> float:
    sound = np.concatenate([await said(server, sentence, **request) for sentence in SENTENCES])
    return 20 * float(np.log10(speech_rms(sound, RATE_HZ)))


def pitch_hz(sound: Sound) -> float:
    """The median over voiced windows, by autocorrelation."""
    size, low, high = RATE_HZ // 20, RATE_HZ // 400, RATE_HZ // 70
    found = []
    for at in range(0, len(sound) - size, size // 2):
        window = sound[at : at + size] * np.hanning(size)
        alike = np.correlate(window, window, "full")[size - 1 :]
        lag = low + int(np.argmax(alike[low:high]))
        if alike[0] > 0.1 and alike[lag] > 0.5 * alike[0]:
            found.append(RATE_HZ / lag)
    return float(np.median(found))


async def test_the_voices_are_equally_loud(server: ServerProcess) -> None:
    levels = [await level_db(server, voice=voice) for voice in ("willow", "rowan", "hazel")]
    assert max(levels) - min(levels) <= EQUALLY_LOUD_DB


async def test_a_clone_is_as_loud_as_the_voices_whatever_its_clip_is(server: ServerProcess) -> None:
    clip, own = await said(server, CLIP, voice="rowan"), await level_db(server, voice="rowan")
    for gain_db in (-24, 0, 9):
        file = io.BytesIO()
        soundfile.write(file, (clip * 10 ** (gain_db / 20)).clip(-1, 1), RATE_HZ, format="FLAC")
        clone = await level_db(server, references=[{"audio": file.getvalue(), "text": CLIP}])
        assert abs(clone - own) <= EQUALLY_LOUD_DB, gain_db


@pytest.mark.parametrize("voice", ["willow", "rowan"])
async def test_speed_changes_the_time_of_speech_and_neither_pitch_nor_level(server: ServerProcess, voice: str) -> None:
    plain = await said(server, SENTENCES[0], voice=voice)
    for speed in (0.7, 1.5):
        sound = await said(server, SENTENCES[0], voice=voice, prosody={"speed": speed})
        assert len(sound) == pytest.approx(len(plain) / speed, rel=0.02)
        assert pitch_hz(sound) == pytest.approx(pitch_hz(plain), rel=SAME_PITCH)
        assert 20 * np.log10(speech_rms(sound, RATE_HZ) / speech_rms(plain, RATE_HZ)) == pytest.approx(0, abs=1.0)
