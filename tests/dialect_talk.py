"""Any JSON dialect with both its sides played by hand: a client that sends messages, an engine that obeys.

The engine makes two chunks for each unit, whose length follows the text.
What is made waits until `deliver`, so a delivery may be stale when it arrives.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from typing import Any

from realtime.audio.chunk import AudioChunk
from realtime.protocol import events
from realtime.protocol.context import Context
from realtime.protocol.contexts import SocketLimits
from realtime.protocol.dialect import ContextKey, Dialect, For, Leave, Shut

VOICES = ("anna", "ben")
MS_PER_CHAR = 50.0
TTFA_PARTS = {"queue": 1.0, "prefill": 2.0, "decode": 3.0, "vocode": 4.0, "encode": 5.0}
LIMITS = SocketLimits(max_message_bytes=100_000, idle_s=600.0)


def new_context(voice: str = "anna", max_stream_chars: int = 2_000) -> Context:
    return Context(max_stream_chars=max_stream_chars, voices=VOICES, voice=voice, new_seed=lambda: 7)


class DialectTalk:
    """`heard` holds everything the client got: maps for JSON, bytes for binary messages, the Shut at last."""

    def __init__(self, make: Callable[[float], Dialect]) -> None:
        self.now = 100.0
        self.dialect = make(self.now)
        self.heard: list[Any] = []
        self.asked: list[tuple[ContextKey, events.SessionEvent]] = []
        self.left: list[ContextKey] = []
        self._work: deque[tuple[ContextKey, Context, events.SessionEvent]] = deque()
        self._made: deque[Callable[[], None]] = deque()
        self.pump()

    # ---- the client ----------------------------------------------------------------------------------

    def send(self, *messages: dict[str, Any] | str) -> None:
        for message in messages:
            self.dialect.receive(message if isinstance(message, str) else json.dumps(message), self.now)
            self.pump()

    @property
    def shut(self) -> Shut | None:
        return next((item for item in self.heard if isinstance(item, Shut)), None)

    @property
    def maps(self) -> list[dict[str, Any]]:
        return [item for item in self.heard if isinstance(item, dict)]

    # ---- the shell -----------------------------------------------------------------------------------

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.dialect.tick(self.now)
        self.pump()

    def pump(self) -> None:
        while True:
            frames, todo = self.dialect.frames(self.now), self.dialect.events()
            if not frames and not todo:
                return
            assert self.shut is None, "nothing comes after the end"
            self.heard += [frame if isinstance(frame, bytes) else json.loads(frame) for frame in frames]
            for item in todo:
                match item:
                    case For(key=key, event=event):
                        self._take(key, event)
                    case Leave(key=key):
                        self.left.append(key)
                        self._work = deque(work for work in self._work if work[0] != key)
                    case Shut():
                        self.heard.append(item)

    def _take(self, key: ContextKey, event: events.SessionEvent) -> None:
        self.asked.append((key, event))
        if isinstance(event, events.Cancel):
            self._work = deque(
                work for work in self._work if work[0] != key or getattr(work[2], "utterance", 0) > event.utterance
            )
        elif (context := self.dialect.context(key)) is not None:
            if isinstance(event, events.CloseStream):
                self._made.append(lambda: context.stream_closed(event.utterance, None, self.now))
            elif isinstance(event, events.Speak | events.Mark | events.End):
                self._work.append((key, context, event))

    def spoken(self, key: ContextKey = "") -> list[str]:
        """What the engine was asked to say."""
        return [event.text for name, event in self.asked if name == key and isinstance(event, events.Speak)]

    # ---- the engine ----------------------------------------------------------------------------------

    def make(self) -> bool:
        """Carry out the next piece of work; its results wait for `deliver`. False if there is none."""
        if not self._work:
            return False
        _, context, event = self._work.popleft()
        match event:
            case events.Speak(utterance=number, unit=unit, text=text):
                half_ms = len(text) * MS_PER_CHAR / 2
                for parts in (TTFA_PARTS, None):
                    chunk = AudioChunk(half_ms, f"{unit}:{text}".encode())
                    self._made.append(lambda c=chunk, p=parts: context.audio(number, unit, c, p, self.now))  # type: ignore[misc]
                self._made.append(lambda: context.unit_done(number, unit, is_cut=False))
            case events.Mark(utterance=number, seq=seq):
                self._made.append(lambda: context.mark_reached(number, seq))
            case events.End(utterance=number):
                self._made.append(lambda: context.utterance_done(number))
        return True

    def deliver(self, count: int = 1) -> bool:
        """Hand over what was made, oldest first. False if there was nothing."""
        for _ in range(count):
            if not self._made:
                return False
            self._made.popleft()()
            self.pump()
        return True

    def run(self) -> None:
        """Everything is made and delivered."""
        while self.make() or self.deliver():
            pass
