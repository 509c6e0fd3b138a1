"""`kingfisher say`: speak a text, or standard input as it arrives, through a running server."""

from __future__ import annotations

import argparse
import asyncio
import codecs
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from pathlib import Path

from kingfisher_client.client import DEFAULT_URL, AsyncClient
from kingfisher_client.errors import KingfisherError
from kingfisher_client.events import Audio, Event, Ready, Warning
from kingfisher_client.player import Player
from kingfisher_client.request import StreamRequest
from kingfisher_client.sound import save_wav

__all__ = ["add_arguments", "main", "run"]

OGG_SUFFIXES = (".opus", ".ogg")
SUFFIXES = (".wav", *OGG_SUFFIXES, ".pcm", ".raw")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", nargs="?", help="what to say; without it, standard input is spoken as it arrives")
    parser.add_argument("-o", "--output", type=Path, help=f"file to write: {', '.join(SUFFIXES)}")
    parser.add_argument("--play", action="store_true", help="play it (needs sounddevice)")
    parser.add_argument("--voice", help="a name from `kingfisher voices`")
    parser.add_argument("--url", default=os.environ.get("KINGFISHER_URL", DEFAULT_URL))
    parser.add_argument("--api-key", help="default: $KINGFISHER_API_KEY")
    parser.add_argument("--sample-rate", type=int, default=24_000)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--quiet", action="store_true", help="no progress on standard error")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="kingfisher say", description="Speak through a running server.")
    add_arguments(parser)
    return run(parser.parse_args(arguments))


def run(options: argparse.Namespace) -> int:
    """0 when everything was spoken, 1 for any error (told in one line), 130 for Ctrl-C."""
    try:
        _check(options)
        asyncio.run(_say(options))
    except KingfisherError as error:
        _tell(f"kingfisher say: {error}")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _check(options: argparse.Namespace) -> None:
    """Before anything is spoken for nothing."""
    path = options.output
    if path is None and not options.play:
        raise KingfisherError("nothing to do with the sound: give -o FILE or --play")
    if path is not None and path.suffix not in SUFFIXES:
        raise KingfisherError(f"{path}: the name must end in one of {', '.join(SUFFIXES)}")
    if path is not None and options.play and path.suffix in OGG_SUFFIXES:
        raise KingfisherError(f"{path}: with --play the file is .wav or .pcm")
    if path is not None and not path.parent.is_dir():
        raise KingfisherError(f"{path}: there is no folder {path.parent}")


async def _say(options: argparse.Namespace) -> None:
    is_ogg = options.output is not None and options.output.suffix in OGG_SUFFIXES
    request: StreamRequest = {"format": "opus"} if is_ogg else {"format": "pcm", "sample_rate": options.sample_rate}
    if options.seed is not None:
        request["seed"] = options.seed
    key = options.api_key or os.environ.get("KINGFISHER_API_KEY")
    progress = _Progress(is_quiet=options.quiet)
    player = Player(options.sample_rate) if options.play else None
    received = bytearray()
    async with AsyncClient(options.url, api_key=key, voice=options.voice) as client:
        pieces = _timed(_one(options.text) if options.text is not None else _standard_input(), progress)
        async with aclosing(client.speak_events(pieces, **request)) as events:
            async for event in events:
                progress.show(event)
                if isinstance(event, Audio):
                    received += event.data
                    if player is not None:
                        await player.push(event.data)
    if player is not None:
        await player.drained()
        player.close()
    progress.done()
    if options.output is not None:
        _write(options.output, bytes(received), options.sample_rate)


async def _one(text: str) -> AsyncIterator[str]:
    yield text


async def _timed(pieces: AsyncIterator[str], progress: _Progress) -> AsyncIterator[str]:
    """Start the clock of the TTFA when the first words are on their way."""
    async for piece in pieces:
        if piece.strip():
            progress.asked()
        yield piece


async def _standard_input() -> AsyncIterator[str]:
    """Pieces as they are written to the pipe, not line by line."""
    loop = asyncio.get_running_loop()
    pieces: asyncio.Queue[bytes] = asyncio.Queue(maxsize=1)

    def read() -> None:
        data = b"-"
        while data:
            data = os.read(sys.stdin.fileno(), 4096)
            asyncio.run_coroutine_threadsafe(pieces.put(data), loop).result()

    # A daemon thread, not the loop's executor: an error must end the command while standard input is still open.
    threading.Thread(target=read, name="standard-input", daemon=True).start()
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    while data := await pieces.get():
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

    def asked(self) -> None:
        if self._asked_s is None:
            self._asked_s = time.monotonic()

    def show(self, event: Event) -> None:
        match event:
            case Ready():
                self._voice = event.voice
            case Audio():
                self._heard(event.duration_ms)
            case Warning():
                _tell(f"\nwarning: {event.message}")

    def done(self) -> None:
        self._show(f"\r{self._summary()}                \n")

    def _heard(self, duration_ms: float) -> None:
        now = time.monotonic()
        if self._first_s is None:
            self._first_s = now
        self._audio_s += duration_ms / 1000
        lead_s = self._audio_s - (now - self._first_s)
        self._show(f"\r{self._summary()}  lead {lead_s:4.1f} s ")

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
