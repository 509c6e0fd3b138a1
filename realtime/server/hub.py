"""Everyone a server serves: who may come in, and which seat a delivery belongs to. Lives on the event loop."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Protocol

from starlette.requests import HTTPConnection
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
    UnknownVoice,
    VoiceNotFound,
)
from realtime.metrics import Metrics
from realtime.protocol.context import Context
from realtime.protocol.dialect import Dialect
from realtime.runtime.delivery import Delivery
from realtime.runtime.runtime import Runtime
from realtime.scheduler.job import Close, SessionId
from realtime.server.auth import check_key, chosen_subprotocol, owner_of
from realtime.server.cloning import Cloning
from realtime.server.connection import INTERNAL, Connection
from realtime.server.guest import Guest
from realtime.server.limits import KeyLimits
from realtime.server.seat import Guard, Seat
from realtime.voices.clips import ClipCache
from realtime.voices.folder import Folder
from realtime.voices.library import VoiceLibrary

__all__ = ["Hub", "Member"]

log = logging.getLogger(__name__)

TICK_S = 1.0

HUNG_S = 30.0
"""An engine that has not come round for so long will not do so any more …"""
GRACE_S = 3.0
"""… unless the whole process was stopped (SIGSTOP, a frozen container): so long it may take from the first look."""

LAST_WORDS_S = 2.0
"""For messages and close frames of sessions that were given up."""

SERVER_GOES_DOWN = 1012

_KEY_IN_SCOPE = "kingfisher.key"
"""Where an ASGI scope holds the key that was counted for it."""


class Member(Protocol):
    """A socket or a request being answered."""

    @property
    def has_seat(self) -> bool: ...

    def tick(self, now: float) -> None: ...

    def drain(self) -> None: ...

    def give_up(self, fault: StreamFault, close_code: int) -> None: ...


class Hub:
    def __init__(self, config: ServerConfig, on_failure: Callable[[], None]) -> None:
        """`on_failure` is called after the engine died and every session was told."""
        self.config, self.metrics = config, Metrics()
        self._on_failure = on_failure
        self._home = Path(config.voices_dir).expanduser()
        self._key_limits = KeyLimits(config.key_sessions, config.key_sessions_per_minute)
        self._runtime: Runtime | None = None
        self._members: set[Member] = set()
        self._seats: dict[SessionId, Seat] = {}
        self._ids, self._requests = count(1), count(1)
        self._library: VoiceLibrary | None = None
        self._cloning: Cloning | None = None
        self._is_empty = asyncio.Event()
        self._is_empty.set()
        self._is_draining = self._has_failed = False
        self._ticker: asyncio.Task[None] | None = None
        self._silent_since_s: float | None = None

    # ---- life ------------------------------------------------------------------------------------------

    async def open(self, engine: Engine) -> None:
        """The engine is loaded and warm: from here on the server is ready."""
        home, codebooks = self._home, engine.limits.num_codebooks
        self._library = VoiceLibrary(Folder(home, ".voice"), engine.fits)
        self._runtime = Runtime(
            engine,
            on_deliveries=self._dispatch,
            on_failure=self._engine_failed,
            observe=self.metrics.observe_step,
            workers=self.config.workers,
            queue_s=self.config.queue_s,
            quiet_dbfs=self.config.quiet_dbfs,
        )
        clips = ClipCache(Folder(home / "clips", ".codes"), codebooks, self.config.model, engine.fits)
        self._cloning = Cloning(self._runtime, clips)
        await self._runtime.start()
        self.metrics.sessions.set_function(lambda: len(self._seats))
        self.metrics.slots_used.set_function(lambda: self.runtime.slots_used)
        self.metrics.speaking.set_function(lambda: self.runtime.sessions_speaking)
        self._ticker = asyncio.create_task(self._tick_forever(), name="tick")

    def close(self, within_s: float = 5.0) -> bool:
        """False if a thread of the engine could not be ended in this time."""
        if self._ticker is not None:
            self._ticker.cancel()
        return self._runtime is None or self._runtime.stop(within_s)

    async def drain(self) -> None:
        """Refuse new sessions; let streams finish for `drain_s`, fail those that did not, and return when all sockets
        are closed."""
        self._is_draining = True
        for member in list(self._members):
            member.drain()
        if not await self.emptied(self.config.drain_s):
            log.warning("%s streams were still open after %g s", len(self._members), self.config.drain_s)
            self._give_up_all(Draining("the server shuts down and could not wait longer"), SERVER_GOES_DOWN)
            await self.emptied(LAST_WORDS_S)

    async def emptied(self, within_s: float) -> bool:
        """Wait until no member is left; False if some still are."""
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

    # ---- members -----------------------------------------------------------------------------------------

    def admit(self, asking: HTTPConnection, voice: str | None = None) -> Guest:
        """Let a socket or request in, to speak with this voice (None: any). Raises HandshakeRefused. What is admitted
        counts for its key until `gone`."""
        try:
            key = check_key(asking, self.config.api_keys)
            if self._is_draining:
                raise Unavailable("draining", "the server is shutting down")
            if not self.is_ready:
                raise Unavailable("not_ready", "the server is still loading its model")
            waiting = sum(not member.has_seat for member in self._members)
            if len(self._seats) + waiting >= self.config.max_sessions:
                raise self._full()
            guest = self.guest(key)
            if voice and voice not in guest.voices:
                raise VoiceNotFound(f"there is no voice {voice[:80]!r}")
            if key is not None and _KEY_IN_SCOPE not in asking.scope:
                self._key_limits.enter(key, time.monotonic())
                asking.scope[_KEY_IN_SCOPE] = key
            return guest
        except HandshakeRefused as refusal:
            self.metrics.refused.labels(refusal.code).inc()
            raise

    def gone(self, scope: MutableMapping[str, Any]) -> None:
        """The socket or request of this ASGI scope is over, whether it was admitted or not."""
        if (key := scope.pop(_KEY_IN_SCOPE, None)) is not None:
            self._key_limits.leave(key)

    async def serve(self, socket: WebSocket, name: str, dialect: Dialect) -> None:
        """One admitted socket to its end. `name` is for the log."""
        connection = Connection(socket, self, name, dialect)
        with self.membership(connection):
            try:
                await socket.accept(subprotocol=chosen_subprotocol(socket))
                await connection.run()
            except (WebSocketDisconnect, RuntimeError) as error:
                log.debug("socket %s ended while it opened: %s", name, error)

    @contextmanager
    def membership(self, member: Member) -> Iterator[None]:
        """While it lasts the member gets ticks, and is told when the server goes down."""
        self._members.add(member)
        self._is_empty.clear()
        try:
            yield
        finally:
            self._members.discard(member)
            if not self._members:
                self._is_empty.set()

    def guest(self, key: str | None) -> Guest:
        """Whoever came with this key (None: there are no keys)."""
        return Guest(self, owner_of(key))

    def take_seat(self, context: Context, guarded: Guard) -> Seat:
        """A session at the engine for this context. Raises TooManySessions."""
        if len(self._seats) >= self.config.max_sessions:
            raise self._full()
        seat = Seat(self, SessionId(next(self._ids)), context, guarded)
        self._seats[seat.session] = seat
        return seat

    def leave_seat(self, seat: Seat) -> None:
        if self._seats.pop(seat.session, None) is not None:
            self.runtime.send(Close(seat.session))

    def new_request_id(self) -> str:
        return f"{next(self._requests)}-{secrets.token_hex(4)}"

    def _full(self) -> TooManySessions:
        return TooManySessions(f"{self.config.max_sessions} sessions are open, which is the limit")

    # ---- voices ----------------------------------------------------------------------------------------

    @property
    def voices(self) -> Mapping[str, Voice]:
        """By name: the model's own, and all that were uploaded, whoever may use them. A live view."""
        own, uploaded = self.runtime.engine.voices, self.library.voices
        return ChainMap(own, uploaded)  # type: ignore[arg-type]  # which only reads them

    @property
    def default_voice(self) -> str:
        return next(iter(self.runtime.engine.voices))

    def voice(self, name: str) -> Voice:
        """Raises UnknownVoice: it may have been deleted since it was chosen."""
        try:
            return self.voices[name]
        except KeyError:
            raise UnknownVoice(f"there is no voice {name[:80]!r}") from None

    @property
    def library(self) -> VoiceLibrary:
        assert self._library is not None, "no request is admitted before the engine is there"
        return self._library

    @property
    def cloning(self) -> Cloning:
        assert self._cloning is not None, "no session opens before the engine is there"
        return self._cloning

    # ---- deliveries ------------------------------------------------------------------------------------

    def _dispatch(self, deliveries: list[Delivery]) -> None:
        shares: dict[SessionId, list[Delivery]] = {}
        for delivery in deliveries:
            shares.setdefault(delivery.session, []).append(delivery)
        for session, share in shares.items():
            if (seat := self._seats.get(session)) is not None:
                seat.deliver(share)

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
        """About once a second: members look at the clock, and so does the watch over the engine."""
        for member in list(self._members):
            member.tick(now)
        self.runtime.ask_encoders(now)
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
        for member in list(self._members):
            member.give_up(fault, close_code)
