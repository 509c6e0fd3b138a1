"""The thread that turns reference clips into voices.

Encoding a clip takes seconds on a CPU. It touches no slot, so it needs no turn among the prefills, and nobody who
speaks waits for it: it has a thread of its own, which the system runs when speech leaves processor time over.
"""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass

from engine.api import Engine, Voice
from realtime.runtime.mailbox import Mailbox
from realtime.runtime.slices import step_back

__all__ = ["ClipLoop", "EncodeReference"]

NICENESS = 10


@dataclass(frozen=True, slots=True)
class EncodeReference:
    clip: bytes
    transcript: str
    name: str
    done: Future[Voice]


class ClipLoop:
    def __init__(self, engine: Engine, inbox: Mailbox[EncodeReference | None]) -> None:
        """None in the inbox asks the loop to end."""
        self._engine, self._inbox = engine, inbox

    def run(self) -> None:
        step_back(NICENESS)
        while None not in (clips := self._inbox.take_all(timeout_s=None)):
            for clip in clips:
                if clip is not None:
                    self._encode(clip)

    def _encode(self, item: EncodeReference) -> None:
        """Whatever a clip does to the decoder or the model is the trouble of who sent it, not of this thread."""
        if not item.done.set_running_or_notify_cancel():
            return
        try:
            item.done.set_result(self._engine.encode_reference(item.clip, item.transcript, item.name))
        except Exception as error:
            item.done.set_exception(error)
