"""What the server says, as maps for JSON; audio goes as binary messages."""

from __future__ import annotations

from typing import Any

__all__ = ["MODEL_VERSION", "error_body", "error_message", "metadata_message", "sequence_message", "warning_message"]

MODEL_VERSION = "1"

ERROR_NAMES = {
    "malformed": "DATA-0000",
    "bad_request": "INVALID_QUERY_PARAMETER",
    "bad_key": "INVALID_AUTH",
    "too_much_text": "DATA-0001",
    "too_many_sessions": "TOO_MANY_REQUESTS",
    "overloaded": "NET-0002",
    "draining": "NET-0001",
    "internal": "NET-0000",
}
"""Our codes in the manner of the vendor."""


def metadata_message(request_id: str, model: str) -> dict[str, Any]:
    return {
        "type": "Metadata",
        "request_id": request_id,
        "model_name": model,
        "model_version": MODEL_VERSION,
        "model_uuid": request_id,
    }


def sequence_message(kind: str, sequence_id: int) -> dict[str, Any]:
    """`kind` is Flushed or Cleared."""
    return {"type": kind, "sequence_id": sequence_id}


def warning_message(code: str, description: str) -> dict[str, Any]:
    """Under its names of today, and the older ones that some clients look for."""
    names = {"warn_code": code.upper(), "warn_msg": description}
    return {"type": "Warning", "code": code.upper(), "description": description, **names}


def error_message(code: str, description: str) -> dict[str, Any]:
    return {"type": "Error", "code": ERROR_NAMES.get(code, code.upper()), "description": description}


def error_body(code: str, message: str, request_id: str) -> dict[str, Any]:
    """Of a refused handshake or request."""
    return {"err_code": ERROR_NAMES.get(code, code.upper()), "err_msg": message, "request_id": request_id}
