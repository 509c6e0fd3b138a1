"""What holds for a vendor's packages in both languages."""

from __future__ import annotations

from typing import Any

from tests.clients.drivers.outcome import TEXTS

__all__ = ["check_realtime"]


def check_realtime(found: dict[str, Any]) -> None:
    """What the drivers of OpenAI's Realtime socket found."""
    assert found["voice"] == "willow"
    assert found["status"] == "completed"
    assert found["transcript"].split() == TEXTS[0].split()
    assert found["cancelled"] == "cancelled"
    assert found["truncated_ms"] == 20
    assert 20 < found["clamped_ms"] < 60_000
    (kind, message), (other_kind, other_message) = found["errors"]
    assert kind == other_kind == "invalid_request_error"
    assert "response_cancel_not_active" in message
    assert "speed" in other_message
