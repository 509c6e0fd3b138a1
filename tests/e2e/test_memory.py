"""Memory after two hundred sessions is what it was after twenty; slots and sockets are all given back."""

from __future__ import annotations

import asyncio

from kingfisher_client import AsyncClient

from tests.server_process import ServerProcess, server_process

GROWTH_BYTES = 8 << 20
"""Allocators keep some pages; a leak of one session's state (over 16 MB of KV) would pass this at once."""


async def one_session(server: ServerProcess, number: int) -> None:
    """A short turn; every third client leaves in the middle of it."""
    client = AsyncClient(server.ws)
    async with client:
        async for audio in client.speak("Hello there, my friend.", format="opus_packets", seed=number):
            if number % 3 == 0 and audio.seq >= 2:
                return


async def sessions(server: ServerProcess, count: int) -> None:
    for first in range(0, count, 4):
        await asyncio.gather(*(one_session(server, first + i) for i in range(4)))


async def test_memory_after_200_sessions_equals_memory_after_20() -> None:
    with server_process("--slots", "4") as server:
        await sessions(server, 20)
        after_20 = server.rss_bytes
        await sessions(server, 180)
        growth = server.rss_bytes - after_20
        print(f"after 20: {after_20 >> 20} MiB, after 200: {(after_20 + growth) >> 20} MiB")
        assert growth < GROWTH_BYTES
        async with asyncio.timeout(10):
            while server.metric("kingfisher_slots_used") or server.metric("kingfisher_sessions"):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
