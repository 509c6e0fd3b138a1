"""A bounded hand-off between threads: many senders, one receiver that takes everything at once."""

from __future__ import annotations

import threading
from collections import deque
from typing import Generic, TypeVar

__all__ = ["Mailbox", "MailboxFull"]

T = TypeVar("T")


class MailboxFull(Exception):
    """The receiver is too far behind. The sender decides what that means for its client."""


class Mailbox(Generic[T]):
    """Items come out in the order they went in; none is lost. At most `capacity` wait, and those put `always`:
    the few that end something, of which there is one per session or thread."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._items: deque[T] = deque()
        self._arrived = threading.Condition()

    def put(self, item: T, *, always: bool = False) -> None:
        """Raises MailboxFull, unless `always`."""
        with self._arrived:
            if len(self._items) >= self._capacity and not always:
                raise MailboxFull(f"{self._capacity} items wait already")
            self._items.append(item)
            self._arrived.notify()

    def take_all(self, timeout_s: float | None = 0.0) -> list[T]:
        """Everything that waits; with a timeout, waits so long for something to come (None: without end)."""
        with self._arrived:
            if not self._items and timeout_s != 0.0:
                self._arrived.wait_for(lambda: bool(self._items), timeout_s)
            items = list(self._items)
            self._items.clear()
            return items

    def __len__(self) -> int:
        return len(self._items)
