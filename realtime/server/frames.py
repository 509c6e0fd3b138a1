"""WebSocket bytes in small portions: a flood of tiny frames holds up its sender and nobody else.

The loop hands a protocol up to 256 kB at a time, which is 40,000 frames without content and half a second of parsing;
one client with 5 Mbit/s could keep the server from everybody. Here it reads a few kilobytes, and then it is the others'
turn. What the parser would keep without bound is bounded too.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

__all__ = ["MAX_FRAGMENTS", "SmallReads"]

READ_BYTES = 4096
"""Of frames without content, parsed in some 7 ms; a message of 16 MiB still comes through in a fraction of a second."""

MAX_FRAGMENTS = 65_536
"""Of one message. Empty ones count for nothing in its size, and were kept for ever."""

MAX_UNSENT_BYTES = 1 << 20
"""Beyond what the outbox lets through: answers to pings of a client that does not read."""

TOO_BIG = 1009


class SmallReads(asyncio.BufferedProtocol):
    """Stands between the transport and uvicorn's protocol. It is the transport's protocol from the handshake on."""

    def __init__(self, inner: WebSocketsSansIOProtocol, transport: asyncio.Transport, max_unsent_bytes: int) -> None:
        """`max_unsent_bytes`: what may wait to be sent for good reasons."""
        self._inner, self._transport = inner, transport
        self._loop = asyncio.get_running_loop()
        self._max_unsent_bytes = max_unsent_bytes + MAX_UNSENT_BYTES
        self._buffer = bytearray(READ_BYTES)

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        inner = self._inner
        inner.data_received(bytes(self._buffer[:nbytes]))
        if nbytes == READ_BYTES and not self._transport.is_closing():
            # There is more; libuv would read it 32 times over before it looks after anybody else.
            self._transport.pause_reading()
            self._loop.call_soon(self._read_on)
        if self._transport.get_write_buffer_size() > self._max_unsent_bytes:
            self._transport.abort()
        elif len(inner.frames) > MAX_FRAGMENTS and not inner.close_sent:
            inner.conn.fail(TOO_BIG, f"a message has more than {MAX_FRAGMENTS} fragments")
            inner.handle_parser_exception()

    def _read_on(self) -> None:
        """Unless the application is behind: it reads on itself when it has caught up."""
        if not self._inner.read_paused and not self._transport.is_closing():
            self._transport.resume_reading()

    # ---- uvicorn's, unchanged ------------------------------------------------------------------------

    def eof_received(self) -> None:
        self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._inner.connection_lost(exc)
