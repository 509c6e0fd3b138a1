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
from dataclasses import dataclass
from typing import Any

from realtime.audio.chunk import AudioChunk
from realtime.errors import BadOrder, ConnectionFault, StreamFault, TooMuchText, UnknownVoice
from realtime.protocol.events import (
    Begin,
    Cancel,
    CloseStream,
    End,
    Mark,
    Reference,
    SessionEvent,
    Shut,
    Speak,
    UseVoice,
)
from realtime.protocol.messages import Cancel as CancelMessage
from realtime.protocol.messages import Flush, Ping, Start, StartRequest, Stop, Text
from realtime.protocol.request import StreamRequest, parse_request
from realtime.protocol.utterance import Stream, Unit, Utterance
from realtime.protocol.wire import decode, encode
from realtime.text.normalizer import normalize
from realtime.text.segmenter import Segmenter, is_speakable

__all__ = ["SessionLimits", "SessionMachine"]

ONE_SHOT_CLOSE_S = 3.0
"""Scripts never close their socket after `finish`; agents begin the next turn on it. See PROTOCOL.md, last lines."""


@dataclass(frozen=True, slots=True)
class SessionLimits:
    max_message_bytes: int = 16 << 20
    max_stream_chars: int = 100_000
    idle_s: float = 600.0


class SessionMachine:
    def __init__(
        self,
        *,
        limits: SessionLimits,
        voices: Collection[str],
        voice: str,
        request_id: str,
        audio_format: dict[str, Any],
        new_seed: Callable[[], int],
        now: float,
    ) -> None:
        """`voice` is the session's own (from the query, or the default); `audio_format` holds what `ready` says of
        the engine's audio (sample_rate, frame_ms). The voice's prefill is asked for at once."""
        self._limits, self._voices, self._voice = limits, voices, voice
        self._request_id, self._audio_format, self._new_seed = request_id, audio_format, new_seed
        self._frames: list[bytes] = []
        self._events: list[SessionEvent] = []
        self._stream: Stream | None = None
        self._utterance: Utterance | None = None
        self._utterances = 0
        self._used_voice: str | Reference | None = None
        self._is_shut = False
        self._is_agent = False
        self._streams = 0
        self._quiet_since_s = now
        self._use_voice(voice)

    # ---- outputs -----------------------------------------------------------------------------------

    def frames(self) -> list[bytes]:
        frames, self._frames = self._frames, []
        return frames

    def events(self) -> list[SessionEvent]:
        events, self._events = self._events, []
        return events

    @property
    def is_streaming(self) -> bool:
        return self._stream is not None

    # ---- the client's side -------------------------------------------------------------------------

    def receive(self, frame: bytes | str, now: float) -> None:
        """One WebSocket message."""
        if self._is_shut:
            return
        try:
            message = decode(frame, self._limits.max_message_bytes)
            match message:
                case Start():
                    self._start(message, now)
                case Text():
                    self._text(message.text or "", now)
                case Flush():
                    self._flush()
                case Stop():
                    self._stop()
                case CancelMessage():
                    self._cancel(message.played_ms)
                case Ping():
                    self._is_agent = True
                    self._send("pong", id=message.id)
        except ConnectionFault as fault:
            self._abort(fault)
        except StreamFault as fault:
            self._fail(fault.code, str(fault), now)

    def tick(self, now: float) -> None:
        """Called about once a second: closes what is over or idle."""
        if self._is_shut or self._stream is not None:
            return
        quiet_s = now - self._quiet_since_s
        if self._streams and not self._is_agent and quiet_s >= ONE_SHOT_CLOSE_S:
            self._shut(1000, "done")
        elif quiet_s >= self._limits.idle_s:
            self._shut(1000, f"idle for {self._limits.idle_s:g} s")

    def drain(self) -> None:
        """The server is going down: an idle session is closed now; a stream may finish first."""
        if not self._is_shut and self._stream is None:
            self._shut(1012, "the server is shutting down")

    # ---- the engine's side, in stream order ----------------------------------------------------------

    def warmed(self, voice: str) -> None:
        """The session's slot holds this voice's prefix."""
        limits = {
            "max_message_bytes": self._limits.max_message_bytes,
            "max_stream_chars": self._limits.max_stream_chars,
            "idle_s": self._limits.idle_s,
        }
        self._send("ready", request_id=self._request_id, voice=voice, limits=limits, **self._audio_format)

    def audio(self, utterance: int, unit: int, chunk: AudioChunk, ttfa_ms: dict[str, float] | None, now: float) -> None:
        """Encoded audio of a unit. `ttfa_ms` comes with the first of an utterance: its parts inside the engine."""
        current, stream = self._current(utterance)
        if current is None or stream is None:
            return
        if ttfa_ms is not None and stream.ttfa_ms is None and stream.first_text_s is not None:
            stream.ttfa_ms = {"total": round((now - stream.first_text_s) * 1000, 2), **ttfa_ms}
        self._send_audio(stream, current, chunk, now)
        current.add_audio(unit, chunk.duration_ms)
        stream.audio_ms += chunk.duration_ms

    def unit_done(self, utterance: int, unit: int, *, is_cut: bool) -> None:
        """The unit's audio is complete; `is_cut`: it hit its frame limit."""
        current, stream = self._current(utterance)
        if current is None or stream is None:
            return
        current.units[unit].is_done = True
        if is_cut:
            self._send("warning", code="unit_too_long", message=f"speech was cut: {current.units[unit].text[:80]!r}")
        if current.held_flushes and not current.is_speaking:
            self._cut_now(stream, current)

    def mark_reached(self, utterance: int, seq: int) -> None:
        """All audio before this flush was sent."""
        current, _ = self._current(utterance)
        if current is not None:
            self._send("flushed", seq=seq, audio_ms=round(current.audio_ms, 2))

    def utterance_done(self, utterance: int) -> None:
        """The utterance was ended by `stop` and all its audio was sent."""
        current, _ = self._current(utterance)
        if current is not None:
            self._events.append(CloseStream(current.number))

    def stream_closed(self, utterance: int, chunk: AudioChunk | None, now: float) -> None:
        """The container is complete; `chunk` holds its last bytes."""
        current, stream = self._current(utterance)
        if current is None or stream is None:
            return
        if chunk is not None:
            self._send_audio(stream, current, chunk, now)
            current.audio_ms += chunk.duration_ms
            stream.audio_ms += chunk.duration_ms
        self._finish("stop", now)

    def failed(self, utterance: int | None, code: str, message: str, now: float) -> None:
        """The engine's side cannot go on with this utterance (None: with whatever is under way)."""
        if utterance is None or self._current(utterance)[0] is not None:
            self._fail(code, message, now)

    def server_failed(self, message: str, now: float) -> None:
        """The engine is gone: the stream fails and the socket closes."""
        if not self._is_shut:
            if self._stream is not None:
                self._fail("internal", message, now)
            self._shut(1011, message)

    # ---- a stream's life -----------------------------------------------------------------------------

    def _start(self, message: Start, now: float) -> None:
        if self._stream is not None:
            raise BadOrder("start inside a stream; wait for its finish or send cancel")
        self._streams += 1
        self._is_agent = self._is_agent or self._streams > 1
        try:
            request = parse_request(message.request or StartRequest())
            voice = self._voice_for(request)
        except StreamFault as fault:
            # The stream never opened, but its start is answered all the same.
            self._send("finish", reason="error", code=fault.code, message=str(fault), time=0.0)
            self._quiet_since_s = now
            return
        seed = self._new_seed() if request.seed is None else request.seed
        self._stream = Stream(request, now, seed)
        self._use_voice(voice)
        if message.debug:
            self._send("log", message=f"request {self._request_id}, seed {seed}")
        self._begin(self._stream, is_new=True)
        if request.text:
            self._text(request.text, now)

    def _voice_for(self, request: StreamRequest) -> str | Reference:
        """The voice of a stream. Raises UnknownVoice; an unknown reference_id only warns, as clients send ids of
        the hosted catalogue by default."""
        if request.reference is not None:
            return request.reference
        if request.voice is not None:
            if request.voice not in self._voices:
                known = ", ".join(sorted(self._voices)[:20])
                raise UnknownVoice(f"there is no voice {request.voice[:80]!r}; known voices: {known}")
            return request.voice
        if request.reference_id is not None:
            if request.reference_id in self._voices:
                return request.reference_id
            message = f"there is no voice {request.reference_id[:80]!r}; {self._voice!r} speaks instead"
            self._send("warning", code="unknown_voice", message=message)
        return self._voice

    def _use_voice(self, voice: str | Reference) -> None:
        if voice != self._used_voice:
            self._used_voice = voice
            is_name = isinstance(voice, str)
            self._events.append(UseVoice(voice if is_name else None, None if is_name else voice))  # type: ignore[arg-type]

    def _begin(self, stream: Stream, *, is_new: bool) -> None:
        self._utterances += 1
        self._utterance = Utterance(self._utterances, Segmenter(stream.request.chunk_chars))
        request = stream.request
        self._events.append(
            Begin(
                self._utterance.number,
                request.output,
                request.temperature,
                request.top_p,
                stream.seed,
                request.max_lead_s,
                new_stream=is_new,
            )
        )

    def _open(self, what: str) -> tuple[Stream, Utterance]:
        """The stream that takes text. Raises BadOrder."""
        if self._stream is None or self._utterance is None:
            raise BadOrder(f"{what} without a stream; send start first")
        if self._stream.is_stopping:
            raise BadOrder(f"{what} after stop; wait for finish, then send start")
        return self._stream, self._utterance

    def _text(self, text: str, now: float) -> None:
        stream, utterance = self._open("text")
        stream.chars += len(text)
        stream.utf8_bytes += len(text.encode("utf-8", "replace"))
        limit = self._limits.max_stream_chars
        if stream.chars > limit:
            raise TooMuchText(f"the stream's text has over {limit} characters")
        if stream.first_text_s is None and text.strip():
            stream.first_text_s = now
        self._speak(stream, utterance, utterance.segmenter.feed(text))

    def _speak(self, stream: Stream, utterance: Utterance, units: list[str]) -> None:
        for text in units:
            spoken = normalize(text) if stream.request.normalize else text
            if is_speakable(spoken):
                unit = Unit(len(utterance.units), text)
                utterance.units.append(unit)
                self._events.append(Speak(utterance.number, unit.number, spoken))

    def _flush(self) -> None:
        """Speak what is held, now, except inside a sentence while speech is under way: clients that flush after
        every word would otherwise get speech word by word. What is held then goes out when that speech is done."""
        stream, utterance = self._open("flush")
        self._is_agent = True
        stream.flushes += 1
        segmenter = utterance.segmenter
        if utterance.held_flushes or (segmenter.pending and not segmenter.ends_sentence and utterance.is_speaking):
            utterance.held_flushes.append(stream.flushes)
            if not segmenter.ends_sentence:
                return
            utterance.held_flushes.pop()
        self._cut_now(stream, utterance, stream.flushes)

    def _cut_now(self, stream: Stream, utterance: Utterance, seq: int | None = None) -> None:
        """All held text becomes units; the flushes that waited, and `seq`, are answered behind them."""
        self._speak(stream, utterance, utterance.segmenter.flush())
        marks = utterance.held_flushes + ([seq] if seq is not None else [])
        utterance.held_flushes = []
        self._events += [Mark(utterance.number, mark) for mark in marks]

    def _stop(self) -> None:
        stream, utterance = self._open("stop")
        stream.is_stopping = True
        self._cut_now(stream, utterance)
        self._events.append(End(utterance.number))

    def _cancel(self, played_ms: float | None) -> None:
        stream, utterance = self._stream, self._utterance
        if stream is None or utterance is None:
            # It crossed with the end of the stream: there is nothing left to cancel.
            self._send("cancelled", utterance=self._utterances, spoken_text="", remaining_text="", audio_ms=0.0)
            return
        self._is_agent = True
        spoken, remaining = utterance.split_at(played_ms)
        self._send(
            "cancelled",
            utterance=utterance.number,
            spoken_text=spoken,
            remaining_text=remaining,
            audio_ms=round(utterance.audio_ms, 2),
        )
        self._events.append(Cancel(utterance.number))
        self._begin(stream, is_new=False)
        if stream.is_stopping:
            self._events.append(End(self._utterances))

    def _fail(self, code: str, message: str, now: float) -> None:
        if self._stream is None:
            return
        if self._utterance is not None:
            self._events.append(Cancel(self._utterance.number))
        self._finish("error", now, code=code, message=message)

    def _finish(self, reason: str, now: float, **details: str) -> None:
        stream = self._stream
        assert stream is not None, "finish without a stream"
        usage = {"chars": stream.chars, "utf8_bytes": stream.utf8_bytes, "audio_ms": round(stream.audio_ms, 2)}
        self._send(
            "finish", reason=reason, time=self._since(stream, now), usage=usage, ttfa_ms=stream.ttfa_ms, **details
        )
        self._stream = self._utterance = None
        self._quiet_since_s = now

    def _abort(self, fault: ConnectionFault) -> None:
        """The client broke the protocol: say so, drop what is under way, close."""
        if self._utterance is not None:
            self._events.append(Cancel(self._utterance.number))
        self._stream = self._utterance = None
        self._send("error", error=str(fault), code=fault.code, request_id=self._request_id)
        self._shut(fault.close_code, str(fault))

    def _shut(self, code: int, reason: str) -> None:
        self._is_shut = True
        self._events.append(Shut(code, reason))

    # ---- sending -------------------------------------------------------------------------------------

    def _current(self, utterance: int) -> tuple[Utterance | None, Stream | None]:
        """The open utterance if it is this one; what comes late for another one is dropped here."""
        if self._is_shut or self._utterance is None or self._utterance.number != utterance:
            return None, None
        return self._utterance, self._stream

    def _send_audio(self, stream: Stream, utterance: Utterance, chunk: AudioChunk, now: float) -> None:
        payload: dict[str, Any] = {"packets": chunk.packets} if chunk.packets else {"audio": chunk.data}
        self._send(
            "audio",
            **payload,
            time=self._since(stream, now),
            utterance=utterance.number,
            seq=utterance.next_seq,
            pts_ms=round(utterance.audio_ms, 3),
            duration_ms=round(chunk.duration_ms, 3),
        )
        utterance.next_seq += 1

    @staticmethod
    def _since(stream: Stream, now: float) -> float:
        return round((now - stream.began_s) * 1000, 2)

    def _send(self, event: str, **fields: Any) -> None:
        if not self._is_shut:
            self._frames.append(encode({"event": event, **fields}))
