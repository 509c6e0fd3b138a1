"""`/v2/speak`: speech in turns. A turn is all text up to a `Flush`, and one stream; one is spoken, later ones wait.

`Interrupt` (barge-in) drops the turn and those that wait, and tells what of its text was heard.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from realtime.errors import BadRequest
from realtime.protocol import replies
from realtime.protocol.context import Context
from realtime.protocol.contexts import NORMAL, SocketLimits, decoded
from realtime.protocol.deepgram.messages import Close, Configure, Flush, FluxMessage, Interrupt, Speak
from realtime.protocol.deepgram.replies import MODEL_VERSION, error_message, warning_message
from realtime.protocol.deepgram.request import checked_speed
from realtime.protocol.dialect import ContextKey
from realtime.protocol.lasting import FAILED, LastingDialect
from realtime.protocol.request import StreamRequest

__all__ = ["MAX_WAITING_CHARS", "FluxSocket"]

POLICY = 1008
MAX_WAITING_CHARS = 100_000
"""Text of turns that wait for their time."""

_decoder: msgspec.json.Decoder[FluxMessage] = msgspec.json.Decoder(FluxMessage)


@dataclass(slots=True)
class _Turn:
    speech_id: str
    begin_ms: float
    """The session's audio before it."""
    chars: int = 0
    audio_ms: float = 0.0
    has_sound: bool = False
    interruption: replies.Cancelled | None = None
    played_ms: float | None = None
    """Of the turn, as the client said with its interruption."""


class FluxSocket(LastingDialect):
    def __init__(
        self,
        new_context: Callable[[], Context],
        request: StreamRequest,
        limits: SocketLimits,
        *,
        request_id: str,
        model: str,
        now: float,
    ) -> None:
        """`model` is what the client called it."""
        super().__init__(new_context, request, limits, now)
        self._request_id = request_id
        self._waiting: deque[Speak | Flush] = deque()
        self._waiting_chars = 0
        self._turn: _Turn | None = None
        self._turns = 0
        self._chars = 0
        self._audio_ms = 0.0
        self._is_closing = False
        about = {"model_name": model, "model_version": MODEL_VERSION, "model_uuids": [request_id]}
        self._send({"type": "Connected", "request_id": request_id, **about})

    # ---- the client ----------------------------------------------------------------------------------

    def _take(self, frame: bytes | str, now: float) -> None:
        match decoded(frame, _decoder):
            case Speak() | Flush() as message:
                self._put(message, now)
            case Interrupt() as message:
                self._interrupt(message, now)
            case Configure(speed=speed):
                self._configure(speed)
            case Close():
                self._is_closing = True

    def _put(self, message: Speak | Flush, now: float) -> None:
        if self._is_closing:
            return
        self._waiting.append(message)
        self._waiting_chars += len(message.text) if isinstance(message, Speak) else 1
        self._go_on(now)
        if self._waiting_chars > MAX_WAITING_CHARS:
            text = f"over {MAX_WAITING_CHARS} characters wait for their turn, which is the limit"
            self._send(error_message("too_much_text", text))
            self._shut(POLICY, text)

    def _go_on(self, now: float) -> None:
        """What waits goes to the context, as far as the turn under way takes it."""
        while self._waiting and (self._turn is None or self._context.takes_text):
            message = self._waiting.popleft()
            self._waiting_chars -= len(message.text) if isinstance(message, Speak) else 1
            if isinstance(message, Speak):
                self._speak(message.text, now)
            elif self._turn is not None:
                self._context.stop()

    def _speak(self, text: str, now: float) -> None:
        if self._turn is None:
            self._turns += 1
            self._turn = _Turn(f"{self._request_id}-{self._turns}", self._audio_ms)
        self._turn.chars += len(text)
        self._chars += len(text)
        super()._speak(text, now)

    def _interrupt(self, message: Interrupt, now: float) -> None:
        self._collect(now)
        turn = self._turn
        if turn is None or turn.interruption is not None:
            self._send(warning_message("no_active_speech", "there is nothing to interrupt"))
            return
        self._waiting.clear()
        self._waiting_chars = 0
        if message.playback_offset is not None:
            turn.played_ms = min(max(message.playback_offset.value - turn.begin_ms, 0.0), turn.audio_ms)
        self._context.cancel(turn.played_ms)
        if self._context.takes_text:
            self._context.stop()

    def _configure(self, speed: float | None) -> None:
        """From the next turn on."""
        try:
            speed = checked_speed(speed)
        except BadRequest as fault:
            about = {"code": "SPEED_OUT_OF_RANGE", "field": "speed", "value": speed, "description": str(fault)}
            self._send({"type": "ConfigureFailure", **about})
            return
        self._request = replace(self._request, output=replace(self._request.output, speed=speed))
        self._send({"type": "ConfigureSuccess", "applied": {"speed": speed}})

    # ---- what the context says -----------------------------------------------------------------------

    def _say_reply(self, key: ContextKey, reply: replies.Reply, now: float) -> None:
        turn = self._turn
        if isinstance(reply, replies.Warning):
            self._send(warning_message(reply.code, reply.message))
        if turn is None:
            return
        match reply:
            case replies.Audio(chunk=chunk, has_sound=True) if turn.interruption is None:
                if not turn.has_sound:
                    turn.has_sound = True
                    self._send({"type": "SpeechStarted", "speech_id": turn.speech_id})
                turn.audio_ms += chunk.duration_ms
                self._audio_ms += chunk.duration_ms
                self._send(chunk.data)
            case replies.Cancelled():
                turn.interruption = reply
                self._send(self._interrupted(turn, reply))
            case replies.Finish(code=None):
                if turn.interruption is None:
                    self._send({"type": "Flushed", "speech_id": turn.speech_id})
                    self._send({"type": "SpeechMetadata", **_metadata(turn)})
            case replies.Finish(code=str() as code, message=message):
                self._send(error_message(code, message))
                self._shut(FAILED, message)

    @staticmethod
    def _interrupted(turn: _Turn, reply: replies.Cancelled) -> dict[str, Any]:
        said = {"type": "SpeechInterrupted", "metadata": _metadata(turn)}
        if turn.played_ms is None:
            return said | {"audio_played_ms": round(turn.audio_ms)}
        heard = {"text_spoken": reply.spoken_text, "text_remaining": reply.remaining_text}
        return said | {"audio_played_ms": round(turn.played_ms), **heard}

    def _finished(self, key: ContextKey) -> None:
        """The context stays for the next turn."""
        self._turn = None

    def frames(self, now: float) -> list[bytes | str]:
        self._collect(now)
        if self._turn is None and not self._is_shut:
            self._go_on(now)
        if self._is_closing and not self._waiting and self._context.takes_text:
            self._context.stop()
        if self._is_closing and self._turn is None and not self._is_shut:
            totals = {"total_input_character_count": self._chars, "total_billable_character_count": self._chars}
            self._send({"type": "SessionMetadata", "total_audio_duration_ms": round(self._audio_ms), **totals})
            self._shut(NORMAL, "done")
        return super().frames(now)

    def drain(self, now: float) -> None:
        """What waits is not begun any more."""
        self._waiting.clear()
        super().drain(now)

    def _error(self, code: str, message: str, close_code: int | None) -> Any:
        return error_message(code, message)


def _metadata(turn: _Turn) -> dict[str, Any]:
    return {
        "speech_id": turn.speech_id,
        "audio_duration_ms": round(turn.audio_ms),
        "input_character_count": turn.chars,
        "billable_character_count": turn.chars,
        "controls_applied": {"pronunciations_applied": 0, "breaks_applied": 0, "pronunciation_warnings": 0},
    }
