"""A folder of spoken sentences: `clips.jsonl` beside FLAC files. The server makes one, the teacher makes another."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryFile

import numpy as np
import numpy.typing as npt

from engine.training.further import language_of
from engine.training.heldout import HeldOut

__all__ = ["SpokenClip", "read_clips", "serving", "speak_through", "unpack_samples", "write_clip"]

START_LIMIT_S = 120.0
TOLD_CHARS = 500


@dataclass(frozen=True, slots=True)
class SpokenClip:
    key: str
    kind: str
    spoken: str
    voice: str
    seed: int

    @property
    def file(self) -> str:
        return f"{self.voice}-{self.key}-{self.seed}.flac"


def write_clip(folder: Path, clip: SpokenClip, pcm: npt.NDArray[np.int16], rate_hz: int) -> None:
    """The sound first, then its line: a line without sound never exists."""
    import soundfile  # a GPU machine may lack it

    folder.mkdir(parents=True, exist_ok=True)
    soundfile.write(folder / clip.file, pcm, rate_hz)
    with (folder / "clips.jsonl").open("a") as list_file:
        list_file.write(json.dumps(asdict(clip)) + "\n")


def read_clips(folder: Path) -> list[SpokenClip]:
    """Raises FileNotFoundError if the folder holds none."""
    return [SpokenClip(**json.loads(line)) for line in (folder / "clips.jsonl").read_text().splitlines()]


def unpack_samples(file: Path, folder: Path, language: str = "en") -> None:
    """What `codec` left for the recognisers: folders `original` and `codec`, the same clips in both. Only those in the
    language: a recogniser told another one makes words up. Clips that the folder has are kept.

    Raises ValueError if there is none.
    """
    with np.load(file) as arrays:
        held = {name: arrays[name] for name in arrays.files}
    said = {name.removeprefix("clip/"): map(str, held[name]) for name in held if name.startswith("clip/")}
    wanted = [(key, spoken, voice) for key, (spoken, voice) in said.items() if language_of(voice) == language]
    if not wanted:
        raise ValueError(f"{file} has no clip in {language}")
    for kind in ("original", "codec"):
        at = folder / kind
        has = {clip.file for clip in read_clips(at)} if (at / "clips.jsonl").exists() else set()
        for key, spoken, voice in wanted:
            clip = SpokenClip(key, kind, spoken, voice, 0)
            if clip.file not in has:
                write_clip(at, clip, held[f"{kind}/{key}"], int(held["rate"]))


@contextmanager
def serving(model: Path) -> Iterator[str]:
    """A server of this model on a free loopback port; gives its WebSocket address. Raises RuntimeError."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "realtime", "serve", "--port", str(port), "--slots", "2", "--model", str(model)]
    with TemporaryFile("w+") as told:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=told, env=os.environ)
        try:
            deadline = time.monotonic() + START_LIMIT_S
            while not _is_ready(port):
                if process.poll() is not None or time.monotonic() > deadline:
                    told.seek(0)
                    raise RuntimeError(
                        f"the server of {model} did not become ready: {told.read()[-TOLD_CHARS:].strip()}"
                    )
                time.sleep(0.1)
            yield f"ws://127.0.0.1:{port}/v1/tts/live"
        finally:
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.HTTPError, OSError):
        return False


def speak_through(
    url: str, folder: Path, sentences: Iterable[HeldOut], voices: Iterable[str], seeds: int, language: str = "en"
) -> None:
    """Every sentence in every voice with seeds 0..seeds-1. Clips that the folder has are kept: it resumes."""
    from kingfisher_client import Client

    has = {clip.file for clip in read_clips(folder)} if (folder / "clips.jsonl").exists() else set()
    wanted = [
        (item, SpokenClip(item.key, item.kind, item.spoken, voice, seed))
        for voice in voices
        for seed in range(seeds)
        for item in sentences
    ]
    with Client(url) as client:
        for number, (item, clip) in enumerate(wanted, 1):
            if clip.file in has:
                continue
            sound = client.speak(
                item.text, voice=clip.voice, language=language, seed=clip.seed, format="pcm", sample_rate=24_000
            )
            pcm = np.frombuffer(b"".join(audio.data for audio in sound), np.int16)
            write_clip(folder, clip, pcm, 24_000)
            if number % 25 == 0 or number == len(wanted):
                print(f"spoken {number} of {len(wanted)}", flush=True)
