"""Encoder processes as the server sees them. They are processes because a packet is a hundred small steps of Python
around a fifth of a millisecond of libopus: in threads, all streams' packets would wait for one interpreter, and so
would the event loop and the engine's threads with them.
"""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from realtime.runtime.delivery import Delivery
from realtime.runtime.frames import Unpacker, pack
from realtime.runtime.mailbox import Mailbox
from realtime.runtime.worker import WorkItem

__all__ = ["EncoderProcess"]

log = logging.getLogger(__name__)

INBOX_ITEMS = 65_536
START_S = 30.0
END_S = 1.0
PIPE_BYTES = 1 << 20
"""Room for a second of sound of 24 streams: whoever sends it shall not wait for the reader's turn on a core."""


class EncoderProcess:
    """`put` may be called from any thread; `on_deliveries` and `on_end` are called on the event loop."""

    def __init__(
        self, name: str, on_deliveries: Callable[[list[Delivery]], None], on_end: Callable[[str], None]
    ) -> None:
        """`on_end` hears why, once, if the process ends by itself."""
        self.name = name
        self._on_deliveries, self._on_end = on_deliveries, on_end
        self._work: Mailbox[WorkItem] = Mailbox(INBOX_ITEMS)
        self._feeder = threading.Thread(target=self._feed, name=f"kingfisher-{name}", daemon=True)
        self._process: subprocess.Popen[bytes] | None = None
        self._source: asyncio.BaseTransport | None = None
        self._is_stopping = False

    async def start(self) -> None:
        """Returns when the process can encode. Raises RuntimeError if it ends instead, TimeoutError if it does
        nothing."""
        source = os.fdopen(await asyncio.to_thread(self._spawn), "rb")
        deliveries = _Deliveries(self._on_deliveries, self._has_ended)
        self._source, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: deliveries, source)
        async with asyncio.timeout(START_S):
            await deliveries.is_ready.wait()
        if deliveries.has_ended:
            raise RuntimeError(f"{self.name} did not start")

    def _spawn(self) -> int:
        """The descriptor that its deliveries come from."""
        source, sink = os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "realtime.runtime.encoder_main", str(sink)],
                stdin=subprocess.PIPE,
                pass_fds=[sink],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(path or str(Path.cwd()) for path in sys.path)},
            )
        finally:
            os.close(sink)
        assert self._process.stdin is not None
        for descriptor in (source, self._process.stdin.fileno()):
            _widen(descriptor)
        self._feeder.start()
        return source

    def put(self, item: WorkItem, *, always: bool = False) -> None:
        """Raises MailboxFull, unless `always`."""
        self._work.put(item, always=always)

    def stop(self) -> None:
        """Work under way is dropped."""
        self._is_stopping = True
        self._work.put(None, always=True)
        if self._source is not None:
            self._source.close()
        if self._process is not None:
            self._process.kill()
            self._feeder.join()
            self._process.communicate()

    def _feed(self) -> None:
        """A thread of its own, so that nobody else waits for the pipe."""
        assert self._process is not None
        assert self._process.stdin is not None
        pipe = self._process.stdin.fileno()
        while True:
            items = self._work.take_all(timeout_s=None)
            left = memoryview(pack([item for item in items if item is not None]))
            try:
                while left:
                    left = left[os.write(pipe, left) :]
            except BrokenPipeError:  # the reader of its deliveries has noticed, too
                return
            if None in items:
                return

    def _has_ended(self) -> None:
        if self._is_stopping:
            return
        assert self._process is not None
        try:
            status: object = self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            status = "unknown"
        self._on_end(f"{self.name} ended, status {status}")


class _Deliveries(asyncio.Protocol):
    def __init__(self, on_deliveries: Callable[[list[Delivery]], None], on_end: Callable[[], None]) -> None:
        self._on_deliveries, self._on_end = on_deliveries, on_end
        self._unpacker = Unpacker()
        self.is_ready = asyncio.Event()
        self.has_ended = False

    def data_received(self, data: bytes) -> None:
        batches: list[list[Delivery]] = self._unpacker.push(data)
        if batches:
            self.is_ready.set()
        if deliveries := [delivery for batch in batches for delivery in batch]:
            self._on_deliveries(deliveries)

    def connection_lost(self, exc: Exception | None) -> None:
        self.has_ended = True
        self.is_ready.set()
        self._on_end()


def _widen(pipe: int) -> None:
    """Where the system lets us (Linux)."""
    if sys.platform == "linux":
        import fcntl

        try:
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        except OSError as error:
            log.debug("pipes keep their size: %s", error)
