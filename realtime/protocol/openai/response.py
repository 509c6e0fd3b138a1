"""One response of a Realtime session, and the events that tell of it. The order of events is OpenAI's."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Any

from realtime.protocol.openai.speech import usage_of
from realtime.protocol.replies import Audio, Finish

__all__ = ["Event", "Response", "message_item"]

Event = dict[str, Any]


def message_item(id_: str, role: str, content: list[dict[str, Any]], status: str) -> dict[str, Any]:
    return {
        "id": id_,
        "object": "realtime.item",
        "type": "message",
        "status": status,
        "role": role,
        "content": content,
    }


@dataclass(slots=True)
class Response:
    id: str
    item_id: str
    is_cancelled: bool = False
    audio_ms: float = 0.0
    _transcript: list[str] = field(default_factory=list)

    def begun(self) -> list[Event]:
        item = self._item("in_progress")
        return [
            {"type": "response.created", "response": self._shown("in_progress", [])},
            {"type": "response.output_item.added", "response_id": self.id, "output_index": 0, "item": item},
            {"type": "conversation.item.added", "previous_item_id": None, "item": item},
            {"type": "response.content_part.added", **self._place, "part": {"type": "audio", "transcript": ""}},
        ]

    def heard(self, audio: Audio) -> list[Event]:
        events: list[Event] = []
        if audio.text:
            delta = f" {audio.text}" if self._transcript else audio.text
            self._transcript.append(delta)
            events.append({"type": "response.output_audio_transcript.delta", **self._place, "delta": delta})
        if audio.chunk.data:
            self.audio_ms += audio.chunk.duration_ms
            sound = base64.b64encode(audio.chunk.data).decode()
            events.append({"type": "response.output_audio.delta", **self._place, "delta": sound})
        return events

    def ended(self, finish: Finish) -> list[Event]:
        status = "failed" if finish.code is not None else "cancelled" if self.is_cancelled else "completed"
        item = self._item("completed" if status == "completed" else "incomplete")
        details: dict[str, Any] | None = None
        if status == "cancelled":
            details = {"type": "cancelled", "reason": "client_cancelled"}
        elif status == "failed":
            error = {"type": "server_error", "code": finish.code, "message": finish.message}
            details = {"type": "failed", "error": error}
        transcript = "".join(self._transcript)
        shown = self._shown(status, [item]) | {"status_details": details, "usage": usage_of(finish)}
        return [
            {"type": "response.output_audio.done", **self._place},
            {"type": "response.output_audio_transcript.done", **self._place, "transcript": transcript},
            {"type": "response.content_part.done", **self._place, "part": self._part},
            {"type": "response.output_item.done", "response_id": self.id, "output_index": 0, "item": item},
            {"type": "conversation.item.done", "previous_item_id": None, "item": item},
            {"type": "response.done", "response": shown},
        ]

    @property
    def _place(self) -> dict[str, Any]:
        return {"response_id": self.id, "item_id": self.item_id, "output_index": 0, "content_index": 0}

    @property
    def _part(self) -> dict[str, Any]:
        return {"type": "audio", "transcript": "".join(self._transcript)}

    def _item(self, status: str) -> dict[str, Any]:
        content = [{**self._part, "type": "output_audio"}] if status != "in_progress" else []
        return message_item(self.item_id, "assistant", content, status)

    def _shown(self, status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "object": "realtime.response",
            "id": self.id,
            "status": status,
            "status_details": None,
            "output": output,
            "output_modalities": ["audio"],
            "usage": None,
        }
