"""`kingfisher say`: speak a text, or standard input as it arrives, through a running server."""

from __future__ import annotations

import argparse
import asyncio
import codecs
import os
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from kingfisher_client.client import DEFAULT_URL, AsyncClient
from kingfisher_client.errors import KingfisherError
from kingfisher_client.events import Audio, Ready, Warning
from kingfisher_client.sound import open_speaker, save_wav

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", nargs="?", help="what to say; without it, standard input is spoken as it arrives")
    parser.add_argument("-o", "--output", type=Path, help="file to write: .wav, .opus, .ogg, .pcm or .raw")
    parser.add_argument("--play", action="store_true", help="play it (needs sounddevice)")
    parser.add_argument("--voice", help="a name from `kingfisher voices`")
    parser.add_argument("--url", default=os.environ.get("KINGFISHER_URL", DEFAULT_URL))
    parser.add_argument("--api-key", default=os.environ.get("KINGFISHER_API_KEY"))
    parser.add_argument("--sample-rate", type=int, default=24_000)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--quiet", action="store_true", help="no progress on standard error")


def run(options: argparse.Namespace) -> int:
    """0 when everything was spoken, 1 for any error (told in one line), 130 for Ctrl-C."""
    try:
        if not options.output and not options.play:
            raise KingfisherError("nothing to do with the sound: give -o FILE or --play")
        asyncio.run(_say(options))
    except KingfisherError as error:
        _tell(f"kingfisher say: {error}")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


async def _say(options: argparse.Namespace) -> None:
    wants_ogg = options.output is not None and options.output.suffix in (".opus", ".ogg") and not options.play
    request: dict[str, Any] = {"format": "opus"} if wants_ogg else {"format": "pcm", "sample_rate": options.sample_rate}
    if options.seed is not None:
        request["seed"] = options.seed
    speaker = open_speaker(options.sample_rate) if options.play else None
    progress = _Progress(is_quiet=options.quiet)
    received = bytearray()
    client = AsyncClient(options.url, api_key=options.api_key, voice=options.voice)
    async with client, client.stream(**request) as stream:
        sender = asyncio.create_task(_send(stream, options.text, progress))
        try:
            async for event in stream:
                if isinstance(event, Audio):
                    progress.heard(event.duration_ms)
                    received += event.data
                    if speaker is not None:
                        await asyncio.to_thread(speaker.write, event.data)
                elif isinstance(event, Warning):
                    _tell(f"\nwarning: {event.message}")
                elif isinstance(event, Ready):
                    progress.ready(event.voice)
            await sender
        finally:
            sender.cancel()
    if speaker is not None:
        await asyncio.to_thread(speaker.stop)
        speaker.close()
    progress.done()
    if options.output is not None:
        _write(options.output, bytes(received), options.sample_rate)


async def _send(stream: Any, text: str | None, progress: _Progress) -> None:
    if text is not None:
        progress.asked()
        await stream.send_text(text)
    else:
        async for piece in _standard_input():
            progress.asked()
            await stream.send_text(piece)
    await stream.stop()


async def _standard_input() -> AsyncIterator[str]:
    """Pieces as they are written to the pipe, not line by line."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    while data := await asyncio.to_thread(os.read, sys.stdin.fileno(), 4096):
        yield decoder.decode(data)
    yield decoder.decode(b"", final=True)


def _write(path: Path, data: bytes, rate_hz: int) -> None:
    try:
        if path.suffix == ".wav":
            save_wav(path, data, rate_hz)
        else:
            path.write_bytes(data)
    except OSError as error:
        raise KingfisherError(f"{path} cannot be written: {error.strerror}") from None


class _Progress:
    """One line on standard error: time to first audio, sound so far, and how far it is ahead of playback."""

    def __init__(self, *, is_quiet: bool) -> None:
        self._is_quiet = is_quiet
        self._asked_s: float | None = None
        self._first_s: float | None = None
        self._audio_s = 0.0
        self._voice = ""

    def ready(self, voice: str) -> None:
        self._voice = voice

    def asked(self) -> None:
        if self._asked_s is None:
            self._asked_s = time.monotonic()

    def heard(self, duration_ms: float) -> None:
        now = time.monotonic()
        if self._first_s is None:
            self._first_s = now
        self._audio_s += duration_ms / 1000
        lead_s = self._audio_s - (now - self._first_s)
        self._show(f"\r{self._summary()}  lead {lead_s:4.1f} s ")

    def done(self) -> None:
        self._show(f"\r{self._summary()}                \n")

    def _summary(self) -> str:
        if self._first_s is None or self._asked_s is None:
            return f"{self._voice}  no audio"
        return f"{self._voice}  TTFA {(self._first_s - self._asked_s) * 1000:.0f} ms  audio {self._audio_s:5.1f} s"

    def _show(self, line: str) -> None:
        if not self._is_quiet:
            sys.stderr.write(line)
            sys.stderr.flush()


def _tell(message: str) -> None:
    sys.stderr.write(message + "\n")
