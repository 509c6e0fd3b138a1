"""A TCP proxy that does to a connection what networks do: slows it, goes silent, resets it, or drops it when quiet."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

__all__ = ["Network", "network_before"]

BLOCK_BYTES = 4_096


@dataclass(slots=True)
class Network:
    """Between clients and the server at `upstream_port`. Its fields may be changed while connections are open."""

    upstream_port: int
    port: int = 0
    bytes_per_s: float | None = None
    """Towards the client; None: as fast as it goes."""
    quiet_limit_s: float | None = None
    """Reset a connection on which the server said nothing for so long, as reverse proxies do."""
    resets: int = 0
    """Connections that were ended by the quiet limit."""
    _flows: asyncio.Event = field(default_factory=asyncio.Event)
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._flows.set()

    def go_silent(self) -> None:
        """From here on nothing is carried in either direction, and nobody is told."""
        self._flows.clear()

    def reset(self) -> None:
        """End every connection with RST on both sides."""
        for writer in list(self._writers):
            _abort(writer)

    def end(self) -> None:
        self._flows.set()
        self.reset()

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of a client, to its end."""
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self.upstream_port)
        both = {writer, up_writer}
        self._writers |= both
        try:
            ways = [
                asyncio.ensure_future(self._pump(reader, up_writer, None, None)),
                asyncio.ensure_future(self._pump(up_reader, writer, self.bytes_per_s, self.quiet_limit_s)),
            ]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
        finally:
            self._writers -= both
            for each in both:
                each.close()

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        bytes_per_s: float | None,
        quiet_limit_s: float | None,
    ) -> None:
        try:
            while True:
                async with asyncio.timeout(quiet_limit_s):
                    block = await reader.read(BLOCK_BYTES)
                if not block:
                    return
                await self._flows.wait()
                writer.write(block)
                await writer.drain()
                if bytes_per_s is not None:
                    await asyncio.sleep(len(block) / bytes_per_s)
        except TimeoutError:
            self.resets += 1
            self.reset()
        except OSError:
            pass  # one side is gone: so is the connection


def _abort(writer: asyncio.StreamWriter) -> None:
    raw: socket.socket | None = writer.get_extra_info("socket")
    if raw is not None and raw.fileno() >= 0:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


@asynccontextmanager
async def network_before(upstream_port: int, **faults: float) -> AsyncIterator[Network]:
    """A proxy on a free port; `faults` are fields of Network."""
    network = Network(upstream_port, **faults)  # type: ignore[arg-type]
    carrying: set[asyncio.Task[None]] = set()

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        carrying.add(task)
        try:
            await network.carry(reader, writer)
        finally:
            carrying.discard(task)

    server = await asyncio.start_server(carry, "127.0.0.1", 0)
    network.port = server.sockets[0].getsockname()[1]
    try:
        yield network
    finally:
        server.close()
        network.end()
        await asyncio.gather(*carrying, return_exceptions=True)
