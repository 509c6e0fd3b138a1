"""TLS in front of HTTP: a handshake gets the time of a request's head, and is counted with those who owe one.

uvicorn leaves TLS to the event loop, which gives a handshake a minute, counts none, and cuts what is not taken half a
minute after a close. So the door takes the connection from the loop's plain server and asks for TLS itself.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from functools import partial

from uvicorn.server import ServerState

from realtime.server.handshake import TimedHttp, Waiting, make_room

__all__ = ["TlsDoor", "tls_context"]

log = logging.getLogger(__name__)

GOODBYE_S = 120.0
"""From the server's close to the client's, with all that was not taken by then: some 200 kB in three buffers, which a
client that plays 32 kbit/s as it comes takes in 50 s."""

UNSENT_BYTES = 64 * 1024
"""Above it the application waits, as without TLS; the loop's default of half a megabyte would outlast GOODBYE_S."""


def tls_context(cert: str, key: str) -> ssl.SSLContext:
    """From two PEM files. Raises OSError (ssl's errors are of that kind) where they cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # Without a password one would be asked for at the terminal, for a key that has one.
    context.load_cert_chain(cert, key, password="none")
    return context


class TlsDoor(asyncio.Protocol, Waiting):
    """A connection up to the end of its TLS handshake; `http` is made for it and goes on from there."""

    def __init__(
        self,
        *,
        context: ssl.SSLContext,
        handshake_s: float,
        http: Callable[..., TimedHttp],
        server_state: ServerState,
        **of_uvicorn: object,
    ) -> None:
        self._context, self._handshake_s = context, handshake_s
        self._http = partial(http, server_state=server_state, **of_uvicorn)
        self._connections = server_state.connections
        self._loop = asyncio.get_running_loop()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Another descriptor of the same connection goes on; this one's transport has read nothing yet."""
        try:
            connection = transport.get_extra_info("socket").dup()
        except OSError as error:
            log.warning("a connection was dropped: %s", error)
            return
        finally:
            transport.abort()
        self.waits_until_s = self._loop.time() + self._handshake_s
        self._connections.add(self)  # type: ignore[arg-type]  # uvicorn asks its members for `shutdown` alone
        self._handshake = self._loop.create_task(self._shake_hands(connection), name="tls")
        self._handshake.add_done_callback(lambda _: self._connections.discard(self))
        make_room(self._connections)

    async def _shake_hands(self, connection: socket.socket) -> None:
        try:
            transport, _ = await self._loop.connect_accepted_socket(
                self._http,
                connection,
                ssl=self._context,
                ssl_handshake_timeout=self._handshake_s,
                ssl_shutdown_timeout=GOODBYE_S,
            )
            transport.set_write_buffer_limits(UNSENT_BYTES)
        except OSError as error:
            log.debug("no TLS: %s", error)

    def give_up(self) -> None:
        self._handshake.cancel()

    def shutdown(self) -> None:
        """What uvicorn asks of every connection when the server ends."""
        self.give_up()
