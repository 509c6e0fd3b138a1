"""A client and a player together: say something aloud, and be interrupted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Iterable
from typing import Unpack

from kingfisher_client.client import AsyncClient, send_all
from kingfisher_client.errors import MisuseError
from kingfisher_client.events import Audio, Cancelled, Finish
from kingfisher_client.player import Player
from kingfisher_client.request import SpeechRequest
from kingfisher_client.stream import Stream

__all__ = ["Speaker"]


class Speaker:
    """`await speaker.say(text)` in one task; `await speaker.interrupt()` in another, when the caller begins to talk."""

    def __init__(self, client: AsyncClient, player: Player) -> None:
        self._client, self._player = client, player
        self._is_saying = self._is_interrupted = False
        self._stream: Stream | None = None
        self._sender: asyncio.Task[None] | None = None

    @property
    def is_speaking(self) -> bool:
        """Whether a `say` is under way that was not interrupted."""
        return self._is_saying and not self._is_interrupted

    async def say(
        self, text: str | AsyncIterable[str] | Iterable[str], **request: Unpack[SpeechRequest]
    ) -> Finish | Cancelled | None:
        """Speak a text, or pieces of it as they come. Returns when the last sound is with the player
        (`Player.drained` waits until it was heard): `Finish`, or after an interruption `Cancelled`, which tells what
        was heard (`Finish` if they crossed); None if it came before the stream was open. Raises what ended the
        stream."""
        if self._is_saying:
            raise MisuseError("something is being said; interrupt it first, and wait for that `say` to return")
        self._is_saying, self._is_interrupted = True, False
        self._player.begin()
        try:
            async with self._client.stream(format="pcm", sample_rate=self._player.rate_hz, **request) as stream:
                return None if self._is_interrupted else await self._speak(stream, text)
        finally:
            self._is_saying, self._stream, self._sender = False, None, None

    async def interrupt(self) -> float:
        """Barge-in: the player is silent before the server knows. Returns the milliseconds that were heard. Once `say`
        has returned there is nothing to cancel; the sound stops all the same."""
        heard_ms = self._player.interrupt()
        stream, sender = self._stream, self._sender
        if not self.is_speaking:
            return heard_ms
        self._is_interrupted = True
        if stream is not None and sender is not None:
            sender.cancel()
            await stream.cancel(heard_ms)
            if not (stream.is_stopped or stream.is_finished):
                await stream.stop()
        return heard_ms

    async def _speak(self, stream: Stream, text: str | AsyncIterable[str] | Iterable[str]) -> Finish | Cancelled:
        self._stream, self._sender = stream, asyncio.create_task(send_all(stream, text))
        cancelled: Cancelled | None = None
        try:
            async for event in stream:
                match event:
                    case Audio():
                        await self._player.push(event.data)
                    case Cancelled():
                        cancelled = event
                    case Finish():
                        return cancelled or event
        finally:
            self._sender.cancel()
            await asyncio.gather(self._sender, return_exceptions=True)
        raise AssertionError("a stream that raises nothing ends in finish")
