"""From start to exit: bind, load and warm up the engine, serve, drain on a signal, exit with the right status."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import partial
from types import FrameType
from typing import Any

import uvicorn
import uvloop

from engine.api import Engine
from realtime.config import ServerConfig
from realtime.runtime.slices import ask_for_short_slices
from realtime.server.app import make_app
from realtime.server.handshake import TimedHttp
from realtime.server.hub import Hub
from realtime.server.tls import TlsDoor, tls_context

__all__ = ["serve"]

log = logging.getLogger(__name__)

SWITCH_INTERVAL_S = 0.0005
"""How long a thread may keep the interpreter from the event loop; the default of 5 ms shows in every wake-up."""

SEND_BUFFER_BYTES = 64 * 1024
"""Small on purpose: what lies in kernel buffers can neither be cancelled nor be told from sound that is heard."""

UNTAKEN_STALLS = 20
"""Times `stall_s`, ten minutes: an answer that its client takes nothing of for so long is dropped by the kernel, also
when nobody here waits for it any more. Short of that it is cut where it was made (realtime.server.spoken); the kernel
alone cannot tell a client that plays what it takes, and takes it in portions of minutes, from one that is gone."""

FAILED_WORDS_S = 0.5
"""After the engine's death, for what sessions were told to reach them: a supervisor waits to start a new server."""
FAILED_STOP_S = 0.2
"""For the threads of a dead engine to end by themselves."""
STOP_S = 5.0


class _Server(uvicorn.Server):
    """uvicorn, but a signal first drains, and a failed engine ends it."""

    def __init__(self, config: uvicorn.Config, hub: Hub) -> None:
        super().__init__(config)
        self._hub = hub
        self._loop = asyncio.get_running_loop()
        self._ending: asyncio.Task[None] | None = None
        self.has_failed = False

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal drains, the second ends at once. Runs wherever the main thread happens to be."""
        self._loop.call_soon_threadsafe(self._on_signal, signal.Signals(sig).name)

    def _on_signal(self, name: str) -> None:
        if self._ending is None:
            log.info("%s: finishing running streams", name)
            self._end_after(self._hub.drain())
        else:
            self.should_exit = True

    def engine_failed(self) -> None:
        """Sessions were told; what they were told is still to be sent."""
        self.has_failed = True
        self._end_after(self._hub.emptied(FAILED_WORDS_S))

    def _end_after(self, last_words: Coroutine[Any, Any, object]) -> None:
        async def end() -> None:
            try:
                await last_words
            finally:
                self.should_exit = True
                self.force_exit = self.has_failed  # wait for nobody

        self._ending = asyncio.create_task(end(), name="end")


class _NoFalseAlarm(logging.Filter):
    """uvicorn 0.54 reports a refused handshake, properly answered, as an application error, and a client's bad UTF-8,
    properly closed, with a traceback."""

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        return "without completing handshake" not in message and "Invalid UTF-8" not in message


def _quiet_uvicorn() -> None:
    """Its info lines repeat each socket's address with the query string, and the query may hold a key."""
    logger = logging.getLogger("uvicorn.error")
    logger.setLevel(logging.WARNING)
    logger.addFilter(_NoFalseAlarm())


def serve(config: ServerConfig, load: Callable[[], Engine]) -> int:
    """Blocks until the server ended; returns the exit status (1 if the engine failed)."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    _quiet_uvicorn()
    status, has_ended = uvloop.run(_serve(config, load))
    if not has_ended:
        # A thread that comes back from native code into an interpreter that is being taken down aborts the process.
        logging.shutdown()
        os._exit(status)
    return status


async def _serve(config: ServerConfig, load: Callable[[], Engine]) -> tuple[int, bool]:
    """The exit status, and whether all threads have ended."""
    hub = Hub(config, on_failure=lambda: server.engine_failed())
    try:
        listening = _listen(config)
    except OSError as error:
        log.critical("cannot listen on %s port %s: %s", config.host, config.port, error)
        return 1, True
    try:
        http = _protocol(config)
    except OSError as error:
        listening.close()
        log.critical("the certificate %s with the key %s cannot be used: %s", config.tls_cert, config.tls_key, error)
        return 1, True
    settings = uvicorn.Config(
        make_app(hub),
        http=http,  # type: ignore[arg-type]
        ws="websockets-sansio",
        ws_max_size=config.max_message_bytes + 1,
        ws_ping_interval=config.ping_s,
        ws_ping_timeout=config.ping_s,
        ws_per_message_deflate=False,
        lifespan="off",
        access_log=False,
        log_config=None,
        timeout_graceful_shutdown=5,
    )
    server = _Server(settings, hub)
    loading = asyncio.create_task(_load(hub, server, load, listening), name="load")
    try:
        await server.serve(sockets=[listening])
    finally:
        is_loading = not loading.done()
        loading.cancel()
        has_ended = not is_loading and hub.close(FAILED_STOP_S if server.has_failed else STOP_S)
    return 1 if server.has_failed else 0, has_ended


def _protocol(config: ServerConfig) -> Callable[..., asyncio.Protocol]:
    """What uvicorn makes for a connection. Raises OSError where the certificate cannot be used."""
    http = partial(
        TimedHttp,
        handshake_s=config.handshake_s,
        silence_s=2 * config.stall_s,
        max_unsent_bytes=config.max_out_bytes,
    )
    if not config.tls_cert:
        return http
    context = tls_context(config.tls_cert, config.tls_key)
    return partial(TlsDoor, context=context, handshake_s=config.handshake_s, http=http)


async def _load(hub: Hub, server: _Server, load: Callable[[], Engine], listening: socket.socket) -> None:
    """Load in a thread, so that health checks are answered meanwhile."""
    try:
        engine = await _aside(load)
    except Exception as error:  # whatever it is, the server cannot speak: say so and exit
        log.critical("the model could not be loaded: %s: %s", type(error).__name__, error)
        server.has_failed = server.should_exit = True
        return
    # What is here by now stays. To look through it for garbage stops every thread, for 0.15 s with the bundled voice.
    gc.collect()
    gc.freeze()
    try:
        await hub.open(engine)
    except (OSError, RuntimeError) as error:  # TimeoutError is one of the first
        log.critical("the encoders could not be started: %s", error)
        server.has_failed = server.should_exit = True
        return
    ask_for_short_slices()  # now, as the threads that were started would have them, too
    host, port = listening.getsockname()[:2]
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    log.info("ready: %s voices, %s slots", len(hub.voices), engine.limits.slots)
    secure = "s" if hub.config.tls_cert else ""
    log.info("demo page  http%s://%s:%s/", secure, shown, port)
    log.info("live       ws%s://%s:%s/v1/tts/live", secure, shown, port)


async def _aside(load: Callable[[], Engine]) -> Engine:
    """In a thread that nobody waits for: whoever ends the server before has no use for its model, which may take
    minutes."""
    made: Future[Engine] = Future()

    def run() -> None:
        made.set_running_or_notify_cancel()
        try:
            made.set_result(load())
        except BaseException as error:
            made.set_exception(error)

    threading.Thread(target=run, name="kingfisher-load", daemon=True).start()
    return await asyncio.wrap_future(made)


def _listen(config: ServerConfig) -> socket.socket:
    """A listening socket; accepted ones inherit its options."""
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(UNTAKEN_STALLS * config.stall_s * 1000))
    listening.bind((config.host, config.port))
    listening.listen(1024)
    listening.setblocking(False)
    return listening
