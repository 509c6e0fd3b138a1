"""The live dialect with both its sides played by hand: a client that sends messages, an engine that obeys.

The engine side works like the real one: what it made stands in a queue until it is delivered, so a delivery may be
stale when it arrives. `cancel` voids what was not made yet, never what is under way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from realtime.audio.chunk import AudioChunk
from realtime.protocol import events
from realtime.protocol.context import Context
from realtime.protocol.dialect import For, Leave, Shut
from realtime.protocol.fish.live import LiveDialect
from realtime.protocol.fish.replies import Limits

VOICES = ("anna", "ben")
MS_PER_CHAR = 50.0
TTFA_PARTS = {"queue": 1.0, "prefill": 2.0, "decode": 3.0, "vocode": 4.0, "encode": 5.0}


class Talk:
    """`replies` and `events` hold everything that came out, in order."""

    def __init__(self, voice: str = "anna", *, with_timestamps: bool = False, **limits: Any) -> None:
        self.now = 100.0
        bounds = Limits(**({"max_message_bytes": 1 << 20, "max_stream_chars": 10_000, "idle_s": 600.0} | limits))
        self.context = Context(max_stream_chars=bounds.max_stream_chars, voices=VOICES, voice=voice, new_seed=lambda: 7)
        self.dialect = LiveDialect(
            self.context,
            limits=bounds,
            request_id="r1",
            sample_rate_hz=24_000,
            frame_ms=50.0,
            now=self.now,
            with_timestamps=with_timestamps,
        )
        self.replies: list[dict[str, Any]] = []
        self.events: list[events.SessionEvent | Shut] = []
        self._work: deque[events.SessionEvent] = deque()
        self._made: deque[Callable[[], None]] = deque()
        self._is_first = True
        self.last_chunk: AudioChunk | None = None
        """What closing the container yields."""
        self.pump()

    # ---- the client ----------------------------------------------------------------------------------

    def send(self, event: str, **fields: Any) -> None:
        self.send_raw(msgspec.msgpack.encode({"event": event, **fields}))

    def send_raw(self, frame: bytes | str) -> None:
        self.dialect.receive(frame, self.now)
        self.pump()

    def start(self, **request: Any) -> None:
        self.send("start", request=request)

    def named(self, *names: str) -> list[dict[str, Any]]:
        return [reply for reply in self.replies if reply["event"] in names]

    # ---- the shell -----------------------------------------------------------------------------------

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.dialect.tick(self.now)
        self.pump()

    def pump(self) -> None:
        """Pull what came out."""
        self.replies += [msgspec.msgpack.decode(frame) for frame in self.dialect.frames(self.now)]
        for outer in self.dialect.events():
            event = outer.event if isinstance(outer, For) else outer
            assert not isinstance(event, Leave)
            self.events.append(event)
            if isinstance(event, events.Cancel):
                self._work = deque(item for item in self._work if getattr(item, "utterance", 0) > event.utterance)
            elif isinstance(event, events.CloseStream):
                self._made.append(partial(self._close_stream, event.utterance))
            elif isinstance(event, events.Begin):
                self._is_first = True
            elif isinstance(event, events.Speak | events.Mark | events.End):
                self._work.append(event)

    def _close_stream(self, utterance: int) -> None:
        self.context.stream_closed(utterance, self.last_chunk, self.now)

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def spoken(self) -> list[str]:
        """What the engine was asked to say."""
        return [event.text for event in self.of(events.Speak)]

    # ---- the engine ----------------------------------------------------------------------------------

    def make(self) -> bool:
        """Carry out the next piece of work; its results wait for `deliver`. False if there is none."""
        if not self._work:
            return False
        match self._work.popleft():
            case events.Speak(utterance=number, unit=unit, text=text):
                half_ms = len(text) * MS_PER_CHAR / 2
                self._make_audio(number, unit, half_ms)
                self._make_audio(number, unit, half_ms)
                self._made.append(lambda: self.context.unit_done(number, unit, is_cut=False))
            case events.Mark(utterance=number, seq=seq):
                self._made.append(lambda: self.context.mark_reached(number, seq))
            case events.End(utterance=number):
                self._made.append(lambda: self.context.utterance_done(number))
        return True

    def _make_audio(self, utterance: int, unit: int, duration_ms: float) -> None:
        parts, self._is_first = (TTFA_PARTS if self._is_first else None), False
        chunk = AudioChunk(duration_ms, b"sound")
        self._made.append(lambda: self.context.audio(utterance, unit, chunk, parts, self.now))

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
