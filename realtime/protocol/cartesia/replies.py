"""What the server says on the socket and over SSE, as maps for JSON."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from realtime.protocol.replies import Audio, WordTiming

__all__ = ["chunk_message", "done_message", "error_message", "flush_done_message", "timestamps_message", "voice_entry"]

STATUS = {
    "bad_request": 400,
    "bad_order": 400,
    "malformed": 400,
    "too_much_text": 400,
    "bad_key": 401,
    "unknown_voice": 404,
    "too_many_sessions": 429,
    "overloaded": 503,
    "draining": 503,
    "not_ready": 503,
}
ERROR_NAMES = {
    "too_many_sessions": "concurrency_limited",
    "unknown_voice": "voice_not_found",
    "bad_key": "unauthorized",
}
"""Our codes under the vendor's names, where it has one."""


def chunk_message(reply: Audio) -> dict[str, Any]:
    data = base64.b64encode(reply.chunk.data).decode()
    return {"type": "chunk", "data": data, "done": False, "status_code": 206, "step_time": reply.time_ms}


def timestamps_message(words: Sequence[WordTiming]) -> dict[str, Any]:
    """Seconds of the context's audio. Estimates are marked by a field that is ours."""
    times: dict[str, Any] = {
        "words": [word.text for word in words],
        "start": [round(word.start_ms / 1000, 3) for word in words],
        "end": [round(word.end_ms / 1000, 3) for word in words],
    }
    if any(word.is_estimate for word in words):
        times["is_estimate"] = True
    return {"type": "timestamps", "done": False, "status_code": 206, "word_timestamps": times}


def flush_done_message(flush_id: int) -> dict[str, Any]:
    return {"type": "flush_done", "done": False, "flush_done": True, "flush_id": flush_id, "status_code": 226}


def done_message() -> dict[str, Any]:
    return {"type": "done", "done": True, "status_code": 200}


def error_message(code: str, message: str, request_id: str) -> dict[str, Any]:
    """Also the body of a failed HTTP request. `error` is where older clients look."""
    return {
        "type": "error",
        "done": True,
        "title": message.split(";")[0][:120],
        "message": message,
        "error": message,
        "error_code": ERROR_NAMES.get(code, code),
        "status_code": STATUS.get(code, 500),
        "request_id": request_id,
    }


def voice_entry(name: str, description: str) -> dict[str, Any]:
    return {
        "id": name,
        "name": name,
        "description": description,
        "tagline": "",
        "language": "en",
        "locales": [],
        "access": "public",
        "visibility": "all",
        "is_owner": False,
        "is_public": True,
        "created_at": "1970-01-01T00:00:00Z",
    }
