"""One socket's session as a Sans-IO machine.

Input methods return nothing and raise nothing for what a client or the engine may do; results are pulled:
`frames()` are messages to send, in order, and `events()` is what the shell must do (see realtime.protocol.events).
After each input the shell pulls both. Time is an argument (seconds, any origin). It knows no socket, no thread, no
engine, and no audio format beyond passing chunks on.

Laws: whatever comes in, each accepted `start` ends in exactly one `finish` or `error`; every accepted character of
text is in exactly one unit, in order; after `cancelled` nothing of that utterance is sent; after `Shut` nothing is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from msgspec import UNSET

from realtime.audio.chunk import AudioChunk
from realtime.errors import BadOrder, ConnectionFault, StreamFault, TooMuchText, UnknownVoice
from realtime.protocol.events import (
    Begin,
    Cancel,
    CloseStream,
    End,
    Finished,
    SessionEvent,
    Shut,
    UseVoice,
)
from realtime.protocol.messages import Cancel as CancelMessage
from realtime.protocol.messages import Flush, Ping, Start, Stop, Text
from realtime.protocol.replies import (
    Cancelled,
    Error,
    Finish,
    Flushed,
    Limits,
    Log,
    Pong,
    Ready,
    Reply,
    Warn,
)
from realtime.protocol.request import StreamRequest, parse_request
from realtime.protocol.utterance import Stream, Utterance
from realtime.protocol.wire import decode, encode
from realtime.text.segmenter import Segmenter

__all__ = ["SessionMachine"]

ONE_SHOT_CLOSE_S = 3.0
"""Scripts never close their socket after `finish`; agents begin the next turn on it. See PROTOCOL.md, last lines."""

NOTHING_USED: dict[str, float] = {"chars": 0, "utf8_bytes": 0, "audio_ms": 0}

NORMAL, SERVER_GOES_DOWN = 1000, 1012


class SessionMachine:
    def __init__(
        self,
        *,
        limits: Limits,
        voices: Collection[str],
        voice: str,
        request_id: str,
        sample_rate_hz: int,
        frame_ms: float,
        new_seed: Callable[[], int],
        now: float,
    ) -> None:
        """`voice` is the session's own (from the query, or the default); `sample_rate_hz` and `frame_ms` are the
        engine's, for `ready`. The voice's prefill is asked for at once."""
        self._limits, self._voices, self._voice = limits, voices, voice
        self._request_id, self._new_seed = request_id, new_seed
        self._sample_rate_hz, self._frame_ms = sample_rate_hz, frame_ms
        self._frames: list[bytes] = []
        self._events: list[SessionEvent] = []
        self._stream: Stream | None = None
        self._utterance: Utterance | None = None
        self._utterances = self._streams = 0
        self._is_shut = self._is_draining = self._is_agent = False
        self._has_failed = False
        """The last stream ended in an error: what the client sent before it knew is let pass."""
        self._quiet_since_s = now
        self._events.append(UseVoice(voice, None))

    # ---- outputs -----------------------------------------------------------------------------------

    def frames(self) -> list[bytes]:
        frames, self._frames = self._frames, []
        return frames

    def events(self) -> list[SessionEvent]:
        events, self._events = self._events, []
        return events

    # ---- the client's side -------------------------------------------------------------------------

    def receive(self, frame: bytes | str, now: float) -> None:
        """One WebSocket message."""
        if self._is_shut:
            return
        try:
            self._take(frame, now)
        except ConnectionFault as fault:
            self._abort(fault, now)
        except StreamFault as fault:
            self._fail(fault.code, str(fault), now)

    def _take(self, frame: bytes | str, now: float) -> None:
        match decode(frame, self._limits.max_message_bytes):
            case Start() as start:
                self._start(start, now)
            case Text(text=text):
                self._text(text or "", now)
            case Flush():
                self._flush()
            case Stop():
                self._stop()
            case CancelMessage(played_ms=played_ms):
                self._cancel(played_ms)
            case Ping(id=id_):
                self._is_agent = True
                self._send(Pong(id_))

    def tick(self, now: float) -> None:
        """Called about once a second: looks at text that was left for later, closes what is over or idle."""
        if self._is_shut:
            return
        if self._utterance is not None:
            self._events += self._utterance.advance()
            return
        quiet_s = now - self._quiet_since_s
        if self._streams and not self._is_agent and quiet_s >= ONE_SHOT_CLOSE_S:
            self._shut(NORMAL, "done")
        elif quiet_s >= self._limits.idle_s:
            self._shut(NORMAL, f"idle for {self._limits.idle_s:g} s")

    def drain(self) -> None:
        """The server is going down: an idle session is closed now, another one after its stream."""
        self._is_draining = True
        if not self._is_shut and self._stream is None:
            self._shut(SERVER_GOES_DOWN, "the server is shutting down")

    def give_up(self, fault: StreamFault, close_code: int, now: float) -> None:
        """The server cannot go on with this session: its stream fails, or an `error` says why; the socket closes."""
        if self._is_shut:
            return
        if self._stream is None:
            self._send(Error(str(fault), fault.code, self._request_id))
        self._fail(fault.code, str(fault), now)
        self._shut(close_code, str(fault))

    # ---- the engine's side, in stream order ----------------------------------------------------------

    def warmed(self, voice: str) -> None:
        """The session's slot holds this voice's prefix."""
        self._send(Ready(self._request_id, voice, self._sample_rate_hz, self._frame_ms, self._limits))

    def audio(self, utterance: int, unit: int, chunk: AudioChunk, ttfa_ms: dict[str, float] | None, now: float) -> None:
        """Encoded audio of a unit. `ttfa_ms` comes with the first of an utterance: its parts inside the engine."""
        current, stream = self._current(utterance)
        if current is None or stream is None:
            return
        if ttfa_ms is not None:
            stream.took_first_audio(ttfa_ms, now)
        stream.audio_ms += chunk.duration_ms
        self._send(current.take_audio(chunk, unit, stream.since_ms(now)))

    def unit_done(self, utterance: int, unit: int, *, is_cut: bool) -> None:
        """The unit's audio is complete; `is_cut`: it hit its frame limit."""
        current, _ = self._current(utterance)
        if current is None:
            return
        if is_cut:
            self._send(Warn("unit_too_long", f"speech was cut: {current.units[unit].text[:80]!r}"))
        self._events += current.unit_done(unit)

    def mark_reached(self, utterance: int, seq: int) -> None:
        """All audio before this flush was sent."""
        current, _ = self._current(utterance)
        if current is not None:
            current.flush_answered()
            self._send(Flushed(seq, round(current.audio_ms, 2)))

    def utterance_done(self, utterance: int) -> None:
        """The utterance was ended by `stop` and all its audio was sent."""
        current, stream = self._current(utterance)
        if current is not None and stream is not None:
            stream.is_closing = True
            self._events.append(CloseStream(current.number))

    def stream_closed(self, utterance: int, chunk: AudioChunk | None, now: float) -> None:
        """Answers CloseStream: the container is complete; `chunk` holds its last bytes, and maybe sound."""
        current, stream = self._utterance, self._stream
        if self._is_shut or current is None or stream is None or not stream.is_closing:
            return
        if chunk is not None and utterance == current.number:
            stream.audio_ms += chunk.duration_ms
            self._send(current.take_audio(chunk, None, stream.since_ms(now)))
        self._finish(stream, now)

    def failed(self, utterance: int | None, code: str, message: str, now: float) -> None:
        """The engine's side cannot go on with this utterance (None: with whatever is under way)."""
        if utterance is None or self._current(utterance)[0] is not None:
            self._fail(code, message, now)

    # ---- a stream's life -----------------------------------------------------------------------------

    def _start(self, start: Start, now: float) -> None:
        if self._stream is not None:
            raise BadOrder("start inside a stream; wait for its finish or send cancel")
        self._streams += 1
        self._is_agent = self._is_agent or self._streams > 1
        self._has_failed = False
        try:
            request = parse_request(start.request)
            voice = self._voice_for(request)
        except StreamFault as fault:
            # The stream never opened, but its start is answered all the same.
            self._send(Finish("error", 0.0, NOTHING_USED, None, fault.code, str(fault)))
            self._over(None, now, has_failed=True)
            return
        seed = self._new_seed() if request.seed is None else request.seed
        self._stream = Stream(now, request, seed)
        self._events.append(voice)
        if start.debug:
            self._send(Log(f"request {self._request_id}, seed {seed}"))
        self._begin(self._stream, is_new=True)
        if request.text:
            self._text(request.text, now)

    def _voice_for(self, request: StreamRequest) -> UseVoice:
        """The voice of a stream. Raises UnknownVoice; an unknown reference_id only warns, as clients send ids of
        the hosted catalogue by default."""
        if request.reference is not None:
            return UseVoice(None, request.reference)
        if request.voice is not None:
            if request.voice not in self._voices:
                known = ", ".join(sorted(self._voices)[:20])
                raise UnknownVoice(f"there is no voice {request.voice[:80]!r}; known voices: {known}")
            return UseVoice(request.voice, None)
        if request.reference_id is not None:
            if request.reference_id in self._voices:
                return UseVoice(request.reference_id, None)
            message = f"there is no voice {request.reference_id[:80]!r}; {self._voice!r} speaks instead"
            self._send(Warn("unknown_voice", message))
        return UseVoice(self._voice, None)

    def _begin(self, stream: Stream, *, is_new: bool) -> None:
        request, utterance = stream.request, self._next_utterance(stream)
        self._events.append(
            Begin(
                utterance.number,
                request.output,
                request.temperature,
                request.top_p,
                stream.seed,
                request.max_lead_s,
                new_stream=is_new,
            )
        )

    def _next_utterance(self, stream: Stream) -> Utterance:
        self._utterances += 1
        segmenter = Segmenter(stream.request.chunk_chars)
        self._utterance = Utterance(self._utterances, segmenter, stream.request.normalize)
        return self._utterance

    def _open(self, what: str) -> tuple[Stream, Utterance] | None:
        """The stream that takes text; None if it just failed, as the client could not know. Raises BadOrder."""
        if self._stream is None or self._utterance is None:
            if self._has_failed:
                return None
            raise BadOrder(f"{what} without a stream; send start first")
        if self._stream.is_stopping:
            raise BadOrder(f"{what} after stop; wait for finish, then send start")
        return self._stream, self._utterance

    def _text(self, text: str, now: float) -> None:
        if (found := self._open("text")) is None:
            return
        stream, utterance = found
        stream.took_text(text, now)
        if stream.chars > self._limits.max_stream_chars:
            raise TooMuchText(f"the stream's text has over {self._limits.max_stream_chars} characters")
        self._events += utterance.feed(text)

    def _flush(self) -> None:
        self._is_agent = True
        if (found := self._open("flush")) is not None:
            stream, utterance = found
            stream.flushes += 1
            self._events += utterance.flush(stream.flushes)

    def _stop(self) -> None:
        if (found := self._open("stop")) is not None:
            stream, utterance = found
            stream.is_stopping = True
            self._events += utterance.end()

    def _cancel(self, played_ms: float | None) -> None:
        self._is_agent = True
        stream, utterance = self._stream, self._utterance
        if stream is None or utterance is None:
            # It crossed with the end of the stream: there is nothing left to cancel.
            self._send(Cancelled(self._utterances))
            return
        spoken, remaining = utterance.split_at(played_ms)
        self._send(Cancelled(utterance.number, spoken, remaining, round(utterance.audio_ms, 2)))
        if stream.is_closing:
            # Nothing is left to speak. The container's end, still to come, would be heard: it is dropped.
            self._next_utterance(stream)
            return
        self._events.append(Cancel(utterance.number))
        self._begin(stream, is_new=False)
        if stream.is_stopping:
            self._events.append(End(self._utterances))

    def _fail(self, code: str, message: str, now: float) -> None:
        if self._stream is not None and self._utterance is not None:
            self._events.append(Cancel(self._utterance.number))
            self._finish(self._stream, now, code, message)

    def _finish(self, stream: Stream, now: float, code: str | None = None, message: str = "") -> None:
        """`code`: what went wrong; None: nothing."""
        self._send(
            Finish(
                reason="stop" if code is None else "error",
                time=stream.since_ms(now),
                usage=stream.usage,
                ttfa_ms=stream.ttfa_ms,
                code=UNSET if code is None else code,
                message=UNSET if code is None else message,
            )
        )
        self._over(stream.ttfa_ms, now, has_failed=code is not None)
        if self._is_draining:
            self.drain()

    def _over(self, ttfa_ms: dict[str, float] | None, now: float, *, has_failed: bool) -> None:
        """A `start` was answered by its `finish` or `error`."""
        self._events.append(Finished("error" if has_failed else "stop", None if ttfa_ms is None else ttfa_ms["total"]))
        self._has_failed = has_failed
        self._stream = self._utterance = None
        self._quiet_since_s = now

    def _abort(self, fault: ConnectionFault, now: float) -> None:
        """The client broke the protocol: say so, drop what is under way, close."""
        if self._utterance is not None:
            self._events.append(Cancel(self._utterance.number))
        self._send(Error(str(fault), fault.code, self._request_id))
        if self._stream is not None:
            self._over(self._stream.ttfa_ms, now, has_failed=True)
        self._shut(fault.close_code, str(fault))

    def _shut(self, code: int, reason: str) -> None:
        if not self._is_shut:
            self._is_shut = True
            self._events.append(Shut(code, reason))

    # ---- sending -------------------------------------------------------------------------------------

    def _current(self, utterance: int) -> tuple[Utterance | None, Stream | None]:
        """The open utterance if it is this one; what comes late for another one is dropped here."""
        if self._is_shut or self._utterance is None or self._utterance.number != utterance:
            return None, None
        return self._utterance, self._stream

    def _send(self, reply: Reply) -> None:
        if not self._is_shut:
            self._frames.append(encode(reply))
