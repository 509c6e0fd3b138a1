"""Interruptions: how soon the old speech ends on the wire, and how soon the next one is heard."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec
from websockets.asyncio.client import ClientConnection

from loadtest.turn import ANSWER_DEADLINE_S, TurnFailed

__all__ = ["interrupt"]

_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder().decode


async def interrupt(
    socket: ClientConnection, text: str, next_text: str, *, request: dict[str, Any], after_s: float
) -> dict[str, float]:
    """Speak `text`, cancel once `after_s` of its sound has come, speak `next_text` to its end. Milliseconds from the
    cancel: to its answer, to the last message of the old speech (0: none came any more), to the first of the new.

    Raises TurnFailed.
    """

    async def send(event: str, **fields: Any) -> None:
        await socket.send(_pack({"event": event, **fields}))

    for event, fields in (("start", {"request": request}), ("text", {"text": text}), ("flush", {})):
        await send(event, **fields)
    heard_s, cancelled_s = 0.0, None
    answer_ms = silence_ms = next_ms = 0.0
    old = None
    while True:
        async with asyncio.timeout(ANSWER_DEADLINE_S):
            frame = await socket.recv()
        message = _unpack(frame.encode() if isinstance(frame, str) else frame)
        now = time.monotonic()
        match message["event"]:
            case "audio" if cancelled_s is None:
                old, heard_s = message["utterance"], heard_s + message["duration_ms"] / 1000
                if heard_s >= after_s:
                    cancelled_s = time.monotonic()
                    await send("cancel")
                    await send("text", text=next_text)
                    await send("flush")
                    await send("stop")
            case "audio" if message["utterance"] == old:
                silence_ms = (now - (cancelled_s or now)) * 1000
            case "audio":
                next_ms = next_ms or (now - (cancelled_s or now)) * 1000
            case "cancelled":
                answer_ms = (now - (cancelled_s or now)) * 1000
            case "flushed" if cancelled_s is None and heard_s < after_s:
                raise TurnFailed(f"the speech was over after {heard_s:.2f} s, before it could be interrupted")
            case "finish":
                if message["reason"] != "stop":
                    raise TurnFailed(f"{message.get('code')}: {message.get('message')}")
                return {
                    "cancel_answer_ms": answer_ms,
                    "cancel_silence_ms": silence_ms,
                    "cancel_next_audio_ms": next_ms,
                }
            case "error":
                raise TurnFailed(f"{message.get('code')}: {message.get('error')}")
