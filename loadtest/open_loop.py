"""Turns that begin when they are due, whatever became of the earlier ones: an open loop.

Each takes a connected socket that is idle, or connects: then the handshake is part of what the user waits for.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from loadtest.callers import MAX_MESSAGE_BYTES, attempt, request_of, row_of

__all__ = ["open_loop"]


async def open_loop(args: argparse.Namespace, offsets: list[float], texts: list[str]) -> list[dict[str, Any]]:
    """One row for each offset. `args.warm_sockets` are connected before the first is due."""
    idle = [await _connected(args) for _ in range(min(args.warm_sockets, len(offsets)))]
    began = time.monotonic()
    tasks = []
    for number, offset in enumerate(offsets):
        planned_s = began + offset
        await asyncio.sleep(max(0.0, planned_s - time.monotonic()))
        tasks.append(asyncio.create_task(_turn(args, number, texts[number % len(texts)], planned_s, idle)))
    rows = await asyncio.gather(*tasks)
    await asyncio.gather(*(socket.close() for socket in idle))
    return list(rows)


def _connected(args: argparse.Namespace) -> connect:
    return connect(args.url, compression=None, max_size=MAX_MESSAGE_BYTES)


async def _turn(
    args: argparse.Namespace, number: int, text: str, planned_s: float, idle: list[ClientConnection]
) -> dict[str, Any]:
    dispatched_s = time.monotonic()
    request = {**request_of(args, number), "seed": random.Random(args.seed * 104_729 + number).randrange(1 << 31)}
    try:
        socket = idle.pop() if idle else await _connected(args)
        turn = await attempt(socket, text, request, planned_s, args.words_per_s)
    except (OSError, WebSocketException) as error:
        return {"caller": number, "text": text, "error": f"{type(error).__name__}: {error}"}
    if isinstance(turn, str):
        await socket.close()
        return {"caller": number, "text": text, "error": turn}
    idle.append(socket)
    # The handshake, where there was one, is the server's time; only a late start is ours.
    return {**row_of(turn, number, args), "lateness_ms": (dispatched_s - planned_s) * 1000}
