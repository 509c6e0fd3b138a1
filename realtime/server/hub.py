"""All sessions of a server: who may come in, and which connection a delivery belongs to. Lives on the event loop."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from itertools import count

from starlette.websockets import WebSocket, WebSocketDisconnect

from engine.api import Engine, Voice
from realtime.config import ServerConfig
from realtime.errors import (
    Draining,
    HandshakeRefused,
    Internal,
    StreamFault,
    TooManySessions,
    Unavailable,
    VoiceNotFound,
)
from realtime.metrics import Metrics
from realtime.protocol.events import Reference
from realtime.protocol.replies import Limits
from realtime.protocol.session import SessionMachine
from realtime.runtime.delivery import Delivery
from realtime.runtime.runtime import Runtime
from realtime.scheduler.job import SessionId
from realtime.server.auth import check_key, chosen_subprotocol
from realtime.server.connection import INTERNAL, Connection, reference_name

__all__ = ["Hub"]

log = logging.getLogger(__name__)

CLONE_CACHE_ENTRIES = 64
TICK_S = 1.0

HUNG_S = 30.0
"""An engine that has not come round for so long will not do so any more …"""
GRACE_S = 3.0
"""… unless the whole process was stopped (SIGSTOP, a frozen container): so long it may take from the first look."""

LAST_WORDS_S = 2.0
"""For messages and close frames of sessions that were given up."""

SERVER_GOES_DOWN = 1012


class Hub:
    def __init__(self, config: ServerConfig, on_failure: Callable[[], None]) -> None:
        """`on_failure` is called after the engine died and every session was told."""
        self.config, self.metrics = config, Metrics()
        self._on_failure = on_failure
        self._runtime: Runtime | None = None
        self._connections: dict[SessionId, Connection] = {}
        self._ids = count(1)
        self._clones: OrderedDict[str, Voice] = OrderedDict()
        self._cloning = asyncio.Lock()
        self._is_empty = asyncio.Event()
        self._is_empty.set()
        self._is_draining = self._has_failed = False
        self._ticker: asyncio.Task[None] | None = None
        self._silent_since_s: float | None = None

    # ---- life ------------------------------------------------------------------------------------------

    def open(self, engine: Engine) -> None:
        """The engine is loaded and warm: from here on the server is ready."""
        self._runtime = Runtime(
            engine,
            on_deliveries=self._dispatch,
            on_failure=self._engine_failed,
            observe=self.metrics.observe_step,
            workers=self.config.workers,
            queue_s=self.config.queue_s,
        )
        self._runtime.start(asyncio.get_running_loop())
        self.metrics.sessions.set_function(lambda: len(self._connections))
        self.metrics.slots_used.set_function(lambda: self.runtime.slots_used)
        self.metrics.speaking.set_function(lambda: self.runtime.sessions_speaking)
        self._ticker = asyncio.create_task(self._tick_forever(), name="tick")

    def close(self) -> None:
        if self._ticker is not None:
            self._ticker.cancel()
        if self._runtime is not None:
            self._runtime.stop()

    async def drain(self) -> None:
        """Refuse new sessions; let streams finish for `drain_s`, fail those that did not, and return when all sockets
        are closed."""
        self._is_draining = True
        for connection in list(self._connections.values()):
            connection.drain()
        if not await self.emptied(self.config.drain_s):
            log.warning("%s streams were still open after %g s", len(self._connections), self.config.drain_s)
            self._give_up_all(Draining("the server shuts down and could not wait longer"), SERVER_GOES_DOWN)
            await self.emptied(LAST_WORDS_S)

    async def emptied(self, within_s: float) -> bool:
        """Wait until no session is open; False if some still are."""
        try:
            await asyncio.wait_for(self._is_empty.wait(), within_s)
        except TimeoutError:
            return False
        return True

    @property
    def runtime(self) -> Runtime:
        assert self._runtime is not None, "no session opens before the engine is there"
        return self._runtime

    @property
    def is_ready(self) -> bool:
        return self._runtime is not None and not self.is_failed and not self._is_draining

    @property
    def is_failed(self) -> bool:
        return self._has_failed or (self._runtime is not None and not self._runtime.is_healthy)

    # ---- sessions --------------------------------------------------------------------------------------

    async def serve(self, socket: WebSocket) -> None:
        """One socket from handshake to end. Raises HandshakeRefused before it is accepted."""
        voice = self._admit(socket)
        session = SessionId(next(self._ids))
        limits = self.runtime.engine.limits
        machine = SessionMachine(
            limits=Limits(self.config.max_message_bytes, self.config.max_stream_chars, self.config.idle_s),
            voices=self.voices.keys(),
            voice=voice,
            request_id=f"{session}-{secrets.token_hex(4)}",
            sample_rate_hz=limits.sample_rate_hz,
            frame_ms=round(limits.frame_s * 1000, 3),
            new_seed=lambda: secrets.randbits(31),
            now=time.monotonic(),
        )
        connection = Connection(socket, self, session, machine)
        self._connections[session] = connection
        self._is_empty.clear()
        try:
            await socket.accept(subprotocol=chosen_subprotocol(socket))
            await connection.run()
        except (WebSocketDisconnect, RuntimeError) as error:
            log.debug("session %s ended while it opened: %s", session, error)
        finally:
            del self._connections[session]
            if not self._connections:
                self._is_empty.set()

    def _admit(self, socket: WebSocket) -> str:
        """The session's voice. Raises HandshakeRefused."""
        try:
            check_key(socket, self.config.api_keys)
            if self._is_draining:
                raise Unavailable("draining", "the server is shutting down")
            if not self.is_ready:
                raise Unavailable("not_ready", "the server is still loading its model")
            if len(self._connections) >= self.config.max_sessions:
                raise TooManySessions(f"{self.config.max_sessions} sessions are open, which is the limit")
            name = socket.query_params.get("voice") or self.default_voice
            if name not in self.voices:
                raise VoiceNotFound(f"there is no voice {name[:80]!r}")
            return name
        except HandshakeRefused as refusal:
            self.metrics.refused.labels(refusal.code).inc()
            raise

    # ---- voices ----------------------------------------------------------------------------------------

    @property
    def voices(self) -> dict[str, Voice]:
        return dict(self.runtime.engine.voices)

    @property
    def default_voice(self) -> str:
        return next(iter(self.voices))

    def voice(self, name: str) -> Voice:
        return self.runtime.engine.voices[name]

    async def clone(self, reference: Reference) -> Voice:
        """The voice of a clip; each clip is encoded once while it stays in the cache. Raises BadReference."""
        name = await asyncio.to_thread(reference_name, reference)
        if name not in self._clones:
            # One at a time, as they are encoded anyway: sessions that bring the same clip at once wait for the first.
            async with self._cloning:
                if name not in self._clones:
                    voice = await self.runtime.encode_reference(reference.audio, reference.text, name)
                    self._clones[name] = voice
                    if len(self._clones) > CLONE_CACHE_ENTRIES:
                        self._clones.popitem(last=False)
        self._clones.move_to_end(name)
        return self._clones[name]

    # ---- deliveries ------------------------------------------------------------------------------------

    def _dispatch(self, deliveries: list[Delivery]) -> None:
        shares: dict[SessionId, list[Delivery]] = {}
        for delivery in deliveries:
            shares.setdefault(delivery.session, []).append(delivery)
        for session, share in shares.items():
            if (connection := self._connections.get(session)) is not None:
                connection.deliver(share)

    async def _tick_forever(self) -> None:
        due_s = time.monotonic()
        while True:
            due_s += TICK_S
            await asyncio.sleep(due_s - time.monotonic())
            now = time.monotonic()
            self.metrics.loop_late_s.observe(max(0.0, now - due_s))
            self.tick(now)
            due_s = max(due_s, now - TICK_S)

    def tick(self, now: float) -> None:
        """About once a second: sessions look at the clock, and so does the watch over the engine."""
        for connection in list(self._connections.values()):
            connection.tick(now)
        if self.runtime.silent_s(now) <= HUNG_S:
            self._silent_since_s = None
        elif self._silent_since_s is None:
            self._silent_since_s = now
        elif now - self._silent_since_s >= GRACE_S:
            self._engine_failed(f"it has not come round for {HUNG_S:g} s")

    def _engine_failed(self, message: str) -> None:
        """Every session is told, once; the process is of no use any more."""
        if self._has_failed:
            return
        self._has_failed = True
        log.critical("the engine failed: %s", message)
        self._give_up_all(Internal("the engine failed"), INTERNAL)
        self._on_failure()

    def _give_up_all(self, fault: StreamFault, close_code: int) -> None:
        for connection in list(self._connections.values()):
            connection.give_up(fault, close_code)
