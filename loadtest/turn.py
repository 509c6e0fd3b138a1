"""One spoken turn over a real socket, recorded message by message."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any

import msgspec
from websockets.asyncio.client import ClientConnection

from loadtest.player import Arrival

__all__ = ["Turn", "TurnFailed", "speak"]

_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder().decode

ANSWER_DEADLINE_S = 60.0


class TurnFailed(Exception):
    """The server answered with an error, or not in time."""


@dataclass(slots=True)
class Turn:
    """Times are `time.monotonic` seconds. `planned_s` is when the turn should have begun."""

    text: str
    planned_s: float
    text_sent_s: float = 0.0
    arrivals: list[Arrival] = field(default_factory=list)
    sizes_bytes: list[int] = field(default_factory=list)
    """Of the audio messages, as they came over the socket."""
    packets: list[bytes] = field(default_factory=list)
    pts_gaps: int = 0
    """Audio messages whose media position did not continue the one before: lost or repeated sound."""
    finish: dict[str, Any] = field(default_factory=dict)

    @property
    def ttfa_s(self) -> float:
        """First text frame written, its last byte -> first audio message received."""
        return self.arrivals[0].at_s - self.text_sent_s

    @property
    def lateness_s(self) -> float:
        """How late the load generator itself was: a large value makes the run invalid."""
        return self.text_sent_s - self.planned_s


async def speak(
    socket: ClientConnection,
    text: str,
    *,
    request: dict[str, Any],
    planned_s: float,
    words_per_s: float | None = None,
) -> Turn:
    """Send one start..stop and read to `finish`. With `words_per_s` the text is streamed like an LLM's."""
    turn = Turn(text=text, planned_s=planned_s)

    async def send() -> None:
        await socket.send(_pack({"event": "start", "request": request}))
        pieces = text.split(" ") if words_per_s else [text]
        for i, piece in enumerate(pieces):
            if i and words_per_s:
                await asyncio.sleep(1 / words_per_s)
            await socket.send(_pack({"event": "text", "text": piece if i == 0 else " " + piece}))
            if i == 0:
                turn.text_sent_s = time.monotonic()
        # As agents do; it also tells the server to keep the socket for the next turn.
        await socket.send(_pack({"event": "flush"}))
        await socket.send(_pack({"event": "stop"}))

    async def receive() -> None:
        expected_ms = 0.0
        while True:
            async with asyncio.timeout(ANSWER_DEADLINE_S):
                frame = await socket.recv()
            message = _unpack(frame.encode() if isinstance(frame, str) else frame)
            match message["event"]:
                case "audio":
                    turn.arrivals.append(Arrival(time.monotonic(), message["duration_ms"] / 1000))
                    turn.sizes_bytes.append(len(frame))
                    turn.pts_gaps += abs(message["pts_ms"] - expected_ms) > 1.0
                    expected_ms = message["pts_ms"] + message["duration_ms"]
                    turn.packets.extend(message.get("packets") or [message["audio"]])
                case "finish":
                    turn.finish = message
                    if message["reason"] != "stop":
                        raise TurnFailed(f"{message.get('code')}: {message.get('message')}")
                    return
                case "error":
                    raise TurnFailed(f"{message.get('code')}: {message.get('error')}")

    async with asyncio.TaskGroup() as both:
        both.create_task(send())
        both.create_task(receive())
    if not turn.arrivals:
        raise TurnFailed("no audio")
    return turn
