"""The two engine threads, playing ping-pong over mailboxes.

*Decode* owns the scheduler: it submits a step whenever somebody needs one and the engine has room for it, and collects
steps as they end. While the device works, the thread waits at its mailbox, so that the prefill of whoever comes
meanwhile is ordered at once. *Prefill* carries out one order at a time. Neither waits for the other.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from engine.api import Engine, Prefill, PrefillResult, PromptTooLong, Ticket
from realtime.runtime.mailbox import Mailbox
from realtime.runtime.slices import ask_for_short_slices
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
        """When the loop last had nothing under way or saw a step end; read by the readiness check."""

    def run(self) -> None:
        """Until Stop. Raises what the engine raises: the death of this thread is handled by the runtime."""
        ask_for_short_slices()
        while self._take_in(self._wait_s()):
            if not self._flying:
                self.heartbeat_s = time.monotonic()
            elif self._engine.is_done(self._flying[0]):
                self._collect(self._flying.popleft())
            if outputs := self._scheduler.take_outputs():
                self._publish(outputs)
            now = time.monotonic()
            if self._has_room and self._due_in_s(now) == 0.0:
                self._order_prefill(now)
                if (plan := self._scheduler.plan(now)) is not None:
                    self._flying.append(self._engine.submit(plan))

    def _collect(self, ticket: Ticket) -> None:
        result = self._engine.collect(ticket)
        now = self.heartbeat_s = time.monotonic()
        self._scheduler.apply(result, now)
        self._observe(StepTimes(result.decode_s, result.vocode_s, len(result.decoded)))
        # The step may have ended a unit: its successor must not wait until the loop comes round, maybe asleep.
        self._order_prefill(now)

    def _order_prefill(self, now: float) -> None:
        if order := self._scheduler.next_prefill(now):
            self._prefills.put(order)

    @property
    def _has_room(self) -> bool:
        """Whether another step may be submitted."""
        return len(self._flying) < self._engine.limits.steps_in_flight

    def _due_in_s(self, now: float) -> float:
        """Until the scheduler has something to do, if nothing comes in."""
        wake_s = self._scheduler.next_wake()
        return HEARTBEAT_S if wake_s is None else min(max(wake_s - now, 0.0), HEARTBEAT_S)

    def _wait_s(self) -> float:
        """How long the loop may wait for something to come in."""
        if self._flying and self._engine.is_done(self._flying[0]):
            return 0.0
        due_in_s = self._due_in_s(time.monotonic()) if self._has_room else HEARTBEAT_S
        return min(due_in_s, POLL_S) if self._flying else due_in_s

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
        ask_for_short_slices()
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
