"""Sound on its way to a client that hardly buffers: it leaves in the rhythm in which it is played.

Who lets little be sent ahead hands the packets on, to a telephone line or an RTP peer. The engine makes frames of 46 ms
when it can, Opus makes packets of 20 ms out of them, and so messages of two and of three packets come equally often:
their interarrival jitter (RFC 3550, 6.4.1) would be 9 ms at best. So the engine works up to the whole lead ahead, and a
message leaves when the listener has half of it left.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

from realtime.runtime.delivery import Delivery, UnitChunk

__all__ = ["LONGEST_PACED_LEAD_S", "Clock", "Pacer"]

LONGEST_PACED_LEAD_S = 0.5
"""Who lets more be sent ahead has a buffer that evens everything out, and is better off with the sound in it."""

SENT_SHARE = 1 / 2
"""Of the lead, at the client; the rest is what steps and encoders may be late by without its being seen."""


TIMER_S = 0.0005
"""Half of the millisecond that timers count in: what is due so soon is due now."""


class Timer(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    """What of asyncio's event loop is used."""

    def time(self) -> float: ...

    def call_at(self, when: float, callback: Callable[[], object], /) -> Timer: ...


class Pacer:
    """One context's. Keeps the order, and lets everything through at once until `begin` says otherwise."""

    def __init__(self, clock: Clock, take: Callable[[list[Delivery]], None]) -> None:
        """`take`: gets what is due."""
        self._clock, self._take = clock, take
        self._held: deque[Delivery] = deque()
        self._sent_lead_s: float | None = None
        """At which the next sound is due; None: at once."""
        self._play_end_s = 0.0
        """When a player that began with the first message will have played all that left."""
        self._timer: Timer | None = None

    def begin(self, max_lead_s: float) -> list[Delivery]:
        """An utterance begins. Returns what was held of earlier ones, which were interrupted: it is due now."""
        self._sent_lead_s = max_lead_s * SENT_SHARE if max_lead_s <= LONGEST_PACED_LEAD_S else None
        self._play_end_s = 0.0
        return self._let_go()

    def put(self, deliveries: Iterable[Delivery]) -> None:
        self._held.extend(deliveries)
        if self._timer is None:
            self._send_due()

    def stop(self) -> None:
        """What is held is not sent any more."""
        self._let_go()

    def _let_go(self) -> list[Delivery]:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        held = list(self._held)
        self._held.clear()
        return held

    def _send_due(self) -> None:
        self._timer = None
        now = self._clock.time()
        due: list[Delivery] = []
        while self._held and (wait_s := self._wait_s(self._held[0], now)) <= TIMER_S:
            delivery = self._held.popleft()
            if isinstance(delivery, UnitChunk):
                self._play_end_s = max(self._play_end_s, now) + delivery.chunk.duration_ms / 1000
            due.append(delivery)
        if self._held:
            self._timer = self._clock.call_at(now + wait_s, self._send_due)
        if due:
            self._take(due)

    def _wait_s(self, delivery: Delivery, now: float) -> float:
        """Only sound waits, and what comes behind it."""
        if self._sent_lead_s is None or not isinstance(delivery, UnitChunk):
            return 0.0
        return self._play_end_s - now - self._sent_lead_s
