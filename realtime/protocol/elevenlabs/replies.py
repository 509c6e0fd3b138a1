"""What the two sockets say, as maps for JSON."""

from __future__ import annotations

import base64
from typing import Any

from realtime.protocol.elevenlabs.alignment import Alignment
from realtime.protocol.replies import Audio

__all__ = ["ERROR_NAMES", "audio_message", "error_message", "final_message"]

ERROR_NAMES = {
    "overloaded": "system_busy",
    "draining": "system_busy",
    "too_many_sessions": "too_many_concurrent_requests",
    "too_much_text": "max_character_limit_exceeded",
    "idle": "input_timeout_exceeded",
    "bad_key": "invalid_api_key",
    "unknown_voice": "voice_not_found",
    "malformed": "invalid_message",
}
"""Our codes under the vendor's names, where it has one."""


def audio_message(reply: Audio, alignment: Alignment, context: dict[str, str]) -> dict[str, Any]:
    """`context` is the field that names it, or nothing."""
    times = alignment.of(reply.timings)
    sound = base64.b64encode(reply.chunk.data).decode() if reply.has_sound else None
    return {"audio": sound, "isFinal": False, **context, "alignment": times, "normalizedAlignment": times}


def final_message(context: dict[str, str]) -> dict[str, Any]:
    return {"audio": None, "isFinal": True, **context}


def error_message(code: str, message: str, close_code: int | None, context: dict[str, str]) -> dict[str, Any]:
    return {"message": message, "error": ERROR_NAMES.get(code, code), "code": close_code or 1008, **context}
