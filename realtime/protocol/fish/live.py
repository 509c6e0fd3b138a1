"""The live protocol (clients/PROTOCOL.md): Fish's events and ours, msgpack maps over one socket, one context.

Law: whatever comes in, each accepted `start` ends in exactly one `finish` or `error`; after `Shut` nothing is sent.
"""

from __future__ import annotations

from msgspec import UNSET

from realtime.errors import ConnectionFault, StreamFault
from realtime.protocol import replies
from realtime.protocol.context import Context
from realtime.protocol.dialect import ContextKey, DialectEvent, For, Shut
from realtime.protocol.fish import replies as wire
from realtime.protocol.fish.messages import Cancel, Flush, Ping, Start, Stop, Text
from realtime.protocol.fish.replies import Limits
from realtime.protocol.fish.request import parse_request
from realtime.protocol.fish.timestamps import StreamTimes
from realtime.protocol.fish.wire import decode, encode

__all__ = ["LiveDialect"]

ONE_SHOT_CLOSE_S = 3.0
"""Scripts never close their socket after `finish`; agents begin the next turn on it. See PROTOCOL.md, last lines."""

NORMAL, SERVER_GOES_DOWN = 1000, 1012

ONLY: ContextKey = ""


class LiveDialect:
    def __init__(
        self,
        context: Context,
        *,
        limits: Limits,
        request_id: str,
        sample_rate_hz: int,
        frame_ms: float,
        now: float,
        with_timestamps: bool = False,
    ) -> None:
        """`sample_rate_hz` and `frame_ms` are the engine's, for `ready`. The voice's prefill is asked for at once.
        `with_timestamps`: audio says when its words are heard."""
        self._context, self._limits, self.request_id = context, limits, request_id
        self._sample_rate_hz, self._frame_ms = sample_rate_hz, frame_ms
        self._frames: list[bytes | str] = []
        self._shut: Shut | None = None
        self._starts = 0
        self._is_shut = self._is_draining = self._is_agent = False
        self._quiet_since_s = now
        self._with_timestamps, self._times = with_timestamps, StreamTimes()
        context.warm()

    # ---- outputs -----------------------------------------------------------------------------------

    def frames(self, now: float) -> list[bytes | str]:
        self._collect(now)
        frames, self._frames = self._frames, []
        return frames

    def events(self) -> list[DialectEvent]:
        inner = self._context.events()
        if self._is_shut and self._shut is None:
            return []
        events: list[DialectEvent] = [For(ONLY, event) for event in inner]
        if self._shut is not None:
            events.append(self._shut)
            self._shut = None
        return events

    def context(self, key: ContextKey) -> Context | None:
        return None if self._is_shut else self._context

    # ---- inputs ------------------------------------------------------------------------------------

    def receive(self, frame: bytes | str, now: float) -> None:
        if self._is_shut:
            return
        try:
            self._take(frame, now)
        except ConnectionFault as fault:
            self._abort(fault, now)

    def _take(self, frame: bytes | str, now: float) -> None:
        context = self._context
        match decode(frame, self._limits.max_message_bytes):
            case Start() as start:
                self._start(start, now)
            case Text(text=text):
                context.text(text or "", now)
            case Flush():
                self._is_agent = True
                context.flush(now)
            case Stop():
                context.stop()
            case Cancel(played_ms=played_ms):
                self._is_agent = True
                context.cancel(played_ms)
            case Ping(id=id_):
                self._is_agent = True
                self._say(wire.Pong(id_), now)

    def _start(self, start: Start, now: float) -> None:
        self._times = StreamTimes()
        try:
            request = parse_request(start.request)
        except StreamFault as fault:
            self._context.refuse(fault)
        else:
            self._context.start(request, now)
        self._starts += 1
        self._is_agent = self._is_agent or self._starts > 1
        if start.debug and (seed := self._context.seed) is not None:
            self._say(wire.Log(f"request {self.request_id}, seed {seed}"), now)

    def tick(self, now: float) -> None:
        """Also closes what is over or idle."""
        if self._is_shut:
            return
        self._context.tick()
        if self._context.is_open:
            return
        quiet_s = now - self._quiet_since_s
        if self._starts and not self._is_agent and quiet_s >= ONE_SHOT_CLOSE_S:
            self._close(NORMAL, "done", now)
        elif quiet_s >= self._limits.idle_s:
            self._close(NORMAL, f"idle for {self._limits.idle_s:g} s", now)

    def drain(self, now: float) -> None:
        self._is_draining = True
        if not self._context.is_open:
            self._close_for_drain(now)

    def give_up(self, fault: StreamFault, close_code: int, now: float) -> None:
        if self._is_shut:
            return
        if not self._context.is_open:
            self._say(wire.Error(str(fault), fault.code, self.request_id), now)
        self._context.fail(fault, now)
        self._close(close_code, str(fault), now)

    # ---- replies -> messages -----------------------------------------------------------------------

    def _collect(self, now: float) -> None:
        """What the context said since, in the protocol's words."""
        for reply in self._context.replies():
            is_wanted = self._with_timestamps or not isinstance(reply, replies.Audio) or reply.has_sound
            if is_wanted and not self._is_shut:
                self._frames.append(encode(self._translate(reply)))
            if isinstance(reply, replies.Finish):
                self._quiet_since_s = now
                if self._is_draining:
                    self._close_for_drain(now)

    def _translate(self, reply: replies.Reply) -> wire.Reply:
        match reply:
            case replies.Audio():
                return self._audio(reply)
            case replies.Flushed():
                return wire.Flushed(reply.seq, round(reply.audio_ms, 2))
            case replies.Cancelled():
                return wire.Cancelled(
                    reply.utterance, reply.spoken_text, reply.remaining_text, round(reply.audio_ms, 2)
                )
            case replies.Warning():
                return wire.Warn(reply.code, reply.message)
            case replies.Warm(voice=voice):
                return wire.Ready(self.request_id, voice, self._sample_rate_hz, self._frame_ms, self._limits)
            case replies.Finish(code=code):
                return wire.Finish(
                    reason="stop" if code is None else "error",
                    time=reply.time_ms,
                    usage={
                        "chars": reply.chars,
                        "utf8_bytes": reply.utf8_bytes,
                        "audio_ms": round(reply.audio_ms, 2),
                    },
                    ttfa_ms=reply.ttfa_ms,
                    code=UNSET if code is None else code,
                    message=UNSET if code is None else reply.message,
                )

    def _audio(self, reply: replies.Audio) -> wire.Audio:
        times = self._times.take(reply) if self._with_timestamps else None
        chunk = reply.chunk
        return wire.Audio(
            time=reply.time_ms,
            utterance=reply.utterance,
            seq=reply.seq,
            pts_ms=round(reply.pts_ms, 3),
            duration_ms=round(chunk.duration_ms, 3),
            audio=UNSET if chunk.packets else chunk.data,
            packets=chunk.packets or UNSET,
            content=UNSET if times is None else times.content,
            alignment=UNSET if times is None else times.alignment,
            chunk_seq=UNSET if times is None else times.chunk_seq,
            chunk_audio_offset_sec=UNSET if times is None else times.chunk_audio_offset_sec,
        )

    def _say(self, message: wire.Reply, now: float) -> None:
        """A message of the dialect itself, behind what the context said."""
        self._collect(now)
        if not self._is_shut:
            self._frames.append(encode(message))

    # ---- the end -----------------------------------------------------------------------------------

    def _abort(self, fault: ConnectionFault, now: float) -> None:
        """The client broke the protocol: say so, drop what is under way, close."""
        self._say(wire.Error(str(fault), fault.code, self.request_id), now)
        self._context.abandon()
        self._close(fault.close_code, str(fault), now)

    def _close_for_drain(self, now: float) -> None:
        self._close(SERVER_GOES_DOWN, "the server is shutting down", now)

    def _close(self, code: int, reason: str, now: float) -> None:
        self._collect(now)
        if not self._is_shut:
            self._is_shut = True
            self._shut = Shut(code, reason)
