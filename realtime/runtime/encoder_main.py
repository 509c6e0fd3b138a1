"""What an encoder process runs: `python -m realtime.runtime.encoder_main FD`. Work comes in through standard input,
deliveries go out through the descriptor; the end of the input is the end of the process.

Signals that ask the server to end reach its whole group; the encoders are needed until the last stream is through.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import sys
from collections.abc import Callable
from typing import Any

from realtime.runtime.delivery import Delivery
from realtime.runtime.pipe import Unpacker, pack
from realtime.runtime.slices import step_back
from realtime.runtime.worker import Worker

NICENESS = 5
"""Most of what encoders make is wanted seconds later; the event loop and the engine's threads are waited for. A third
of an ordinary share, so that a CPU model beside them leaves them enough for the first sounds."""

READ_BYTES = 1 << 20


class _Input:
    """Standard input as a worker's inbox. What is not taken stays in the pipe, and holds up the sender."""

    def __init__(self, descriptor: int, answer: Callable[[], None]) -> None:
        """`answer` is called for an empty piece of work, by which the server asks whether anybody is there."""
        self._descriptor, self._answer = descriptor, answer
        self._unpacker = Unpacker()

    def take_all(self, timeout_s: float | None) -> list[Any]:
        """None is among the items when the server has closed its end."""
        while True:
            if not select.select([self._descriptor], [], [], timeout_s)[0]:
                return []
            if not (piece := os.read(self._descriptor, READ_BYTES)):
                return [None]
            batches = self._unpacker.push(piece)
            if [] in batches:
                self._answer()
            items = [item for batch in batches for item in batch]
            if items or timeout_s is not None:
                return items


class _Output:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def answer(self) -> None:
        self.deliver([])

    def deliver(self, deliveries: list[Delivery]) -> None:
        left = memoryview(pack(deliveries))
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
        except BrokenPipeError:  # the server is gone: nobody is left to encode for
            os._exit(0)


def main(descriptor: int) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    logging.basicConfig(format="%(asctime)s %(levelname)-7s %(name)s: %(message)s", level=logging.INFO)
    step_back(NICENESS)
    output = _Output(descriptor)
    output.answer()  # ready
    Worker(_Input(sys.stdin.fileno(), output.answer), output.deliver).run()


if __name__ == "__main__":
    main(int(sys.argv[1]))
