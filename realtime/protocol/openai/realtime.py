"""OpenAI's Realtime API for speech out: the texts of a conversation's items are spoken by `response.create`.

What is spoken: the items of `response.input`, else those created since the last response, in order; system items are
not. There is no speech in and no language model behind it. A message that cannot be read or done is answered by an
`error` event, and the socket goes on.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import msgspec

from realtime.errors import BadRequest, Malformed
from realtime.protocol import replies
from realtime.protocol.context import Context
from realtime.protocol.contexts import ContextsDialect, SocketLimits, decoded
from realtime.protocol.dialect import ContextKey
from realtime.protocol.openai.messages import ClientEvent, Item
from realtime.protocol.openai.response import Event, Response, message_item
from realtime.protocol.openai.session import Session, updated
from realtime.protocol.openai.speech import VoiceId
from realtime.protocol.request import StreamRequest
from realtime.text.segmenter import is_speakable

__all__ = ["RealtimeSocket"]

ONLY: ContextKey = ""
MAX_ITEMS = 1_000
"""Spoken items whose length is remembered for truncation, and items that wait to be spoken."""
MAX_WAITING_CHARS = 100_000
"""Of all of these together."""
TEXT_KINDS = ("input_text", "output_text", "text")

_decoder = msgspec.json.Decoder(ClientEvent)


class RealtimeSocket(ContextsDialect):
    def __init__(
        self,
        new_context: Callable[[], Context],
        session: Session,
        voice_of: Callable[[str | VoiceId], str],
        limits: SocketLimits,
        *,
        session_id: str,
        model: str,
        now: float,
    ) -> None:
        """`voice_of` gives a known voice for any name. The voice's prefill is asked for at once."""
        super().__init__(new_context, limits, now)
        self._session, self._voice_of = session, voice_of
        self._id, self._model = session_id, model
        self._events_sent = self._made = 0
        self._waiting: OrderedDict[str, str] = OrderedDict()
        """Texts by item, to be spoken by the next response."""
        self._spoken_ms: OrderedDict[str, float] = OrderedDict()
        self._response: Response | None = None
        self._context = self._add(ONLY)
        self._context.warm()
        self._say({"type": "session.created", "session": session.shown(session_id, model)})

    # ---- inputs ------------------------------------------------------------------------------------

    def _take(self, frame: bytes | str, now: float) -> None:
        event_id = None
        try:
            event = decoded(frame, _decoder)
            event_id = event.event_id
            self._do(event, now)
        except (Malformed, BadRequest) as fault:
            self._send(self._numbered(self._error_event(fault.code, str(fault), event_id)))

    def _do(self, event: ClientEvent, now: float) -> None:
        """Raises BadRequest."""
        match event.type:
            case "session.update" if event.session is not None:
                self._session = updated(self._session, event.session, self._voice_of)
                self._say({"type": "session.updated", "session": self._session.shown(self._id, self._model)})
            case "conversation.item.create" if event.item is not None:
                self._add_item(event.item)
            case "conversation.item.delete" if event.item_id is not None:
                self._waiting.pop(event.item_id, None)
                self._say({"type": "conversation.item.deleted", "item_id": event.item_id})
            case "conversation.item.truncate" if event.item_id is not None:
                self._truncate(event.item_id, event.content_index or 0, event.audio_end_ms or 0.0)
            case "response.create":
                self._respond(event, now)
            case "response.cancel":
                self._cancel()
            case _:
                raise BadRequest(f"{event.type[:80]!r} lacks a field, or cannot be done: this server only speaks")

    def _add_item(self, item: Item) -> None:
        if len(self._waiting) >= MAX_ITEMS:
            raise BadRequest(f"{MAX_ITEMS} items wait to be spoken already")
        id_ = (item.id or self._new_id("item"))[:200]
        text = _text_of(item)
        if len(text) + sum(map(len, self._waiting.values())) > MAX_WAITING_CHARS:
            raise BadRequest(f"over {MAX_WAITING_CHARS} characters wait to be spoken, which is the limit")
        content = [{"type": part.type, "text": part.text or ""} for part in item.content]
        shown = message_item(id_, item.role, content, "completed")
        if item.role != "system":
            self._waiting[id_] = text
        self._say({"type": "conversation.item.added", "previous_item_id": None, "item": shown})
        self._say({"type": "conversation.item.done", "previous_item_id": None, "item": shown})

    def _respond(self, event: ClientEvent, now: float) -> None:
        if self._response is not None:
            raise BadRequest(f"conversation_already_has_active_response: {self._response.id} is being spoken")
        session, texts = self._session, list(self._waiting.values())
        if event.response is not None:
            session = updated(session, event.response, self._voice_of)
            if event.response.input is not None:
                texts = [_text_of(item) for item in event.response.input if item.role != "system"]
        text = " ".join(texts)
        if not is_speakable(text):
            raise BadRequest("there is nothing to say: create an item with text first, or give response.input")
        self._waiting.clear()
        self._response = Response(self._new_id("resp"), self._new_id("item"))
        for begun in self._response.begun():
            self._say(begun)
        self._context.start(StreamRequest(text=text, voice=session.voice, output=session.output), now)
        if self._context.takes_text:
            self._context.stop()

    def _cancel(self) -> None:
        if self._response is None:
            raise BadRequest("response_cancel_not_active: nothing is being spoken")
        if not self._response.is_cancelled:
            self._response.is_cancelled = True
            self._context.cancel(None)

    def _truncate(self, item_id: str, content_index: int, audio_end_ms: float) -> None:
        """Players report positions past the end: they are clamped."""
        response = self._response
        is_under_way = response is not None and response.item_id == item_id
        audio_ms = response.audio_ms if response is not None and is_under_way else self._spoken_ms.get(item_id)
        if audio_ms is None:
            raise BadRequest(f"item_id is {item_id[:80]!r}; no such item was spoken")
        end_ms = int(min(max(audio_end_ms, 0.0), audio_ms))
        truncated = {"item_id": item_id, "content_index": content_index, "audio_end_ms": end_ms}
        self._say({"type": "conversation.item.truncated", **truncated})

    # ---- the context's side --------------------------------------------------------------------------

    def _say_reply(self, key: ContextKey, reply: replies.Reply, now: float) -> None:
        response = self._response
        if response is None:
            return
        match reply:
            case replies.Audio(has_sound=True) if not response.is_cancelled:
                for event in response.heard(reply):
                    self._say(event)
            case replies.Finish():
                self._response = None
                self._spoken_ms[response.item_id] = response.audio_ms
                if len(self._spoken_ms) > MAX_ITEMS:
                    self._spoken_ms.popitem(last=False)
                for event in response.ended(reply):
                    self._say(event)

    def _finished(self, key: ContextKey) -> None:
        """The context stays for the next response."""

    # ---- messages ------------------------------------------------------------------------------------

    def _say(self, event: Event) -> None:
        self._send(self._numbered(event))

    def _numbered(self, event: Event) -> Event:
        self._events_sent += 1
        return {"event_id": f"event_{self._events_sent}", **event}

    def _new_id(self, kind: str) -> str:
        self._made += 1
        return f"{kind}_{self._id}_{self._made}"

    def _error(self, code: str, message: str, close_code: int | None) -> Any:
        return self._numbered(self._error_event(code, message, None))

    def _error_event(self, code: str, message: str, event_id: str | None) -> Event:
        kind = "invalid_request_error" if code in ("bad_request", "malformed", "too_big") else "server_error"
        error = {"type": kind, "code": code, "message": message, "param": None, "event_id": event_id}
        return {"type": "error", "error": error}


def _text_of(item: Item) -> str:
    """Raises BadRequest for anything but text."""
    if item.type != "message":
        raise BadRequest(f"item.type is {item.type[:80]!r}; only messages can be spoken")
    for part in item.content:
        if part.type not in TEXT_KINDS:
            raise BadRequest(f"content.type is {part.type[:80]!r}; choose one of {', '.join(TEXT_KINDS)}")
    return " ".join(part.text for part in item.content if part.text)
