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
from realtime.errors import HandshakeRefused, TooManySessions, Unavailable, VoiceNotFound
from realtime.metrics import Metrics
from realtime.protocol.events import Reference
from realtime.protocol.session import SessionLimits, SessionMachine
from realtime.runtime.delivery import Delivery
from realtime.runtime.runtime import Runtime
from realtime.scheduler.job import SessionId
from realtime.server.auth import check_key, chosen_subprotocol
from realtime.server.connection import Connection, reference_name

__all__ = ["Hub"]

log = logging.getLogger(__name__)

CLONE_CACHE_ENTRIES = 64
TICK_S = 1.0


class Hub:
    def __init__(self, config: ServerConfig, on_failure: Callable[[], None]) -> None:
        """`on_failure` is called after the engine died and every session was told."""
        self.config, self.metrics = config, Metrics()
        self._on_failure = on_failure
        self._runtime: Runtime | None = None
        self._connections: dict[SessionId, Connection] = {}
        self._ids = count(1)
        self._clones: OrderedDict[str, Voice] = OrderedDict()
        self._is_draining = False
        self._ticker: asyncio.Task[None] | None = None

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
        self._ticker = asyncio.create_task(self._tick(), name="tick")

    def close(self) -> None:
        if self._ticker is not None:
            self._ticker.cancel()
        if self._runtime is not None:
            self._runtime.stop()

    async def drain(self) -> None:
        """Refuse new sessions; let streams finish for `drain_s`, then return."""
        self._is_draining = True
        deadline = time.monotonic() + self.config.drain_s
        while time.monotonic() < deadline:
            for connection in list(self._connections.values()):
                connection.machine.drain()
                connection.pump()
            if not any(c.machine.is_streaming for c in self._connections.values()):
                return
            await asyncio.sleep(0.1)
        log.warning("%s streams were still open after %g s", len(self._connections), self.config.drain_s)

    @property
    def runtime(self) -> Runtime:
        assert self._runtime is not None, "no session opens before the engine is there"
        return self._runtime

    @property
    def is_ready(self) -> bool:
        return self._runtime is not None and self._runtime.is_healthy and not self._is_draining

    @property
    def is_failed(self) -> bool:
        return self._runtime is not None and not self._runtime.is_healthy

    # ---- sessions --------------------------------------------------------------------------------------

    async def serve(self, socket: WebSocket) -> None:
        """One socket from handshake to end. Raises HandshakeRefused before it is accepted."""
        voice = self._admit(socket)
        session = SessionId(next(self._ids))
        limits = self.runtime.engine.limits
        machine = SessionMachine(
            limits=SessionLimits(self.config.max_message_bytes, self.config.max_stream_chars, self.config.idle_s),
            voices=self.voices.keys(),
            voice=voice,
            request_id=f"{session}-{secrets.token_hex(4)}",
            audio_format={"sample_rate": limits.sample_rate_hz, "frame_ms": round(limits.frame_s * 1000, 3)},
            new_seed=lambda: secrets.randbits(31),
            now=time.monotonic(),
        )
        connection = Connection(socket, self, session, machine)
        self._connections[session] = connection
        self.metrics.sessions.set(len(self._connections))
        try:
            await socket.accept(subprotocol=chosen_subprotocol(socket))
            await connection.run()
        except (WebSocketDisconnect, RuntimeError) as error:
            log.debug("session %s ended while it opened: %s", session, error)
        finally:
            del self._connections[session]
            self.metrics.sessions.set(len(self._connections))

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
        name = reference_name(reference)
        if name not in self._clones:
            voice = await self.runtime.encode_reference(reference.audio, reference.text, name)
            self._clones[name] = voice
            if len(self._clones) > CLONE_CACHE_ENTRIES:
                self._clones.popitem(last=False)
        self._clones.move_to_end(name)
        return self._clones[name]

    # ---- deliveries ------------------------------------------------------------------------------------

    def _dispatch(self, deliveries: list[Delivery]) -> None:
        touched: dict[SessionId, Connection] = {}
        for delivery in deliveries:
            connection = self._connections.get(delivery.session)
            if connection is not None:
                connection.handle(delivery)
                touched[delivery.session] = connection
        for connection in touched.values():
            connection.pump()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            now = time.monotonic()
            for connection in list(self._connections.values()):
                connection.tick(now)
            self.metrics.slots_used.set(self.runtime.slots_used)
            self.metrics.speaking.set(self.runtime.sessions_speaking)

    def _engine_failed(self, message: str) -> None:
        log.critical("the engine failed: %s", message)
        for connection in list(self._connections.values()):
            connection.machine.server_failed(message, time.monotonic())
            connection.pump()
        self._on_failure()
