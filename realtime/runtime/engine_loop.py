"""The two engine threads, playing ping-pong over mailboxes.

*Decode* owns the scheduler: it plans step n+1, submits it, then collects step n. While the device works on it, the
thread waits at its mailbox, so that the prefill of whoever comes meanwhile is ordered at once. *Prefill* carries out
one order at a time. Neither waits for the other.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from engine.api import Engine, Prefill, PrefillResult, PromptTooLong, Ticket
from realtime.runtime.mailbox import Mailbox
from realtime.scheduler.job import Command, Output
from realtime.scheduler.scheduler import Scheduler

__all__ = ["DecodeLoop", "PrefillFailed", "PrefillLoop", "StepTimes", "Stop"]

HEARTBEAT_S = 1.0
"""The decode thread wakes at least so often, so that a stopped one can be told from an idle one."""

POLL_S = 0.0005
"""How often it looks whether the step under way is over. The next one is queued on the device already."""


@dataclass(frozen=True, slots=True)
class PrefillFailed:
    order: Prefill
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Stop:
    pass


@dataclass(frozen=True, slots=True)
class StepTimes:
    """For metrics: seconds of one step, and how many rows it had."""

    decode_s: float
    vocode_s: float
    rows: int


DecodeItem = Command | PrefillResult | PrefillFailed | Stop
PrefillItem = Prefill | Stop


class DecodeLoop:
    """`publish` gets each step's outputs at once, on this thread."""

    def __init__(
        self,
        engine: Engine,
        scheduler: Scheduler,
        inbox: Mailbox[DecodeItem],
        prefills: Mailbox[PrefillItem],
        publish: Callable[[list[Output]], None],
        observe: Callable[[StepTimes], None],
    ) -> None:
        self._engine, self._scheduler = engine, scheduler
        self._inbox, self._prefills = inbox, prefills
        self._publish, self._observe = publish, observe
        self._flying: deque[Ticket] = deque()
        self._is_over = False
        self.heartbeat_s = time.monotonic()
        """When the loop last came round; read by the readiness check."""

    def run(self) -> None:
        """Until Stop. Raises what the engine raises: the death of this thread is handled by the runtime."""
        limit = self._engine.limits.steps_in_flight
        while self._take_in(self._idle_s()):
            now = self.heartbeat_s = time.monotonic()
            self._order_prefill(now)
            plan = self._scheduler.plan(now)
            if plan is not None:
                self._flying.append(self._engine.submit(plan))
            if self._flying and (plan is None or len(self._flying) >= limit):
                self._collect(self._flying.popleft())
            if outputs := self._scheduler.take_outputs():
                self._publish(outputs)

    def _collect(self, ticket: Ticket) -> None:
        is_running = True
        while is_running and not self._engine.is_done(ticket):
            is_running = self._take_in(POLL_S)
        result = self._engine.collect(ticket)
        self._scheduler.apply(result, time.monotonic())
        self._observe(StepTimes(result.decode_s, result.vocode_s, len(result.decoded)))
        # The step may have ended a unit: its successor must not wait until the loop comes round, maybe asleep.
        self._order_prefill(time.monotonic())

    def _order_prefill(self, now: float) -> None:
        if order := self._scheduler.next_prefill(now):
            self._prefills.put(order)

    def _idle_s(self) -> float:
        """How long the loop may sleep: not at all while a step is in flight or may run."""
        if self._flying:
            return 0.0
        now = time.monotonic()
        wake_s = self._scheduler.next_wake()
        return HEARTBEAT_S if wake_s is None else min(max(wake_s - now, 0.0), HEARTBEAT_S)

    def _take_in(self, timeout_s: float) -> bool:
        """Pass on what came in, or comes within the timeout, and order the prefill that it may ask for; False from the
        time that Stop came."""
        if not (items := self._inbox.take_all(timeout_s)):
            return not self._is_over
        now = time.monotonic()
        for item in items:
            if isinstance(item, Stop):
                self._is_over = True
            elif isinstance(item, PrefillResult):
                self._scheduler.prefilled(item, now)
            elif isinstance(item, PrefillFailed):
                self._scheduler.prefill_failed(item.order, item.code, item.message, now)
            else:
                self._scheduler.submit(item, now)
        self._order_prefill(now)
        return not self._is_over


class PrefillLoop:
    def __init__(self, engine: Engine, inbox: Mailbox[PrefillItem], results: Mailbox[DecodeItem]) -> None:
        self._engine, self._inbox, self._results = engine, inbox, results

    def run(self) -> None:
        """Until Stop."""
        while True:
            for item in self._inbox.take_all(timeout_s=None):
                if isinstance(item, Stop):
                    return
                self._results.put(self._prefill(item))

    def _prefill(self, order: Prefill) -> PrefillResult | PrefillFailed:
        try:
            return self._engine.prefill(order)
        except PromptTooLong as error:
            return PrefillFailed(order, "bad_request", str(error))
