"""The slot table: which session holds which slot, and under which epoch."""

from __future__ import annotations

from dataclasses import dataclass

from engine.api import Epoch, SlotId
from realtime.scheduler.job import SessionId

__all__ = ["SlotTable"]


@dataclass(slots=True)
class _Entry:
    owner: SessionId | None = None
    epoch: int = 0
    last_step: int = 0
    """The last submitted step that names the slot: until it is collected the device may still write here."""


class SlotTable:
    """Used + free is always the number of slots; an epoch is never used twice."""

    def __init__(self, slots: int) -> None:
        self._entries = [_Entry() for _ in range(slots)]
        self._free = [SlotId(i) for i in reversed(range(slots))]

    @property
    def free(self) -> int:
        return len(self._free)

    @property
    def used(self) -> int:
        return len(self._entries) - len(self._free)

    def allocate(self, session: SessionId) -> SlotId | None:
        """A free slot for the session, or None."""
        if not self._free:
            return None
        slot = self._free.pop()
        self._entries[slot].owner = session
        return slot

    def release(self, slot: SlotId) -> None:
        entry = self._entries[slot]
        assert entry.owner is not None, f"slot {slot} is released twice"
        entry.owner = None
        self.next_epoch(slot)
        self._free.append(slot)

    def next_epoch(self, slot: SlotId) -> Epoch:
        """Whatever is still under way for the slot's earlier epochs is void from here on."""
        self._entries[slot].epoch += 1
        return Epoch(self._entries[slot].epoch)

    def epoch(self, slot: SlotId) -> Epoch:
        return Epoch(self._entries[slot].epoch)

    def planned(self, slot: SlotId, step: int) -> None:
        """The slot is named in this step."""
        self._entries[slot].last_step = step

    def is_quiet(self, slot: SlotId, collected_step: int) -> bool:
        """Whether no submitted step that names the slot is still to be collected."""
        return self._entries[slot].last_step <= collected_step

    def check_integrity(self) -> None:
        """Every slot is either free or owned, and no slot is free twice."""
        free = set(self._free)
        assert len(free) == len(self._free), "a slot is free twice"
        for slot, entry in enumerate(self._entries):
            assert (slot in free) == (entry.owner is None), f"slot {slot} is neither free nor owned"
