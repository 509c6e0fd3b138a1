"""Encoder processes as the server sees them. They are processes because a packet is a hundred small steps of Python
around a fifth of a millisecond of libopus: in threads, all streams' packets would wait for one interpreter, and so
would the event loop and the engine's threads with them.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from realtime.runtime.delivery import Delivery
from realtime.runtime.mailbox import MailboxFull
from realtime.runtime.pipe import Unpacker, pack
from realtime.runtime.worker import WorkItem

__all__ = ["EncoderProcess"]

log = logging.getLogger(__name__)

PACKAGES = Path(__file__).parents[2]
"""Where `engine` and `realtime` lie."""

MAX_WAITING_BYTES = 256 << 20
"""Of work that a process has not taken: a minute of sound of 40 streams."""
START_S = 30.0
END_S = 1.0
PIPE_BYTES = 1 << 20
"""Room for a second of sound of twenty streams at 24 kHz, so that what is put is in the pipe at once, as a rule."""


class EncoderProcess:
    """`put` may be called from any thread; `on_deliveries` and `on_end` are called on the event loop."""

    def __init__(
        self, name: str, on_deliveries: Callable[[list[Delivery]], None], on_end: Callable[[str], None]
    ) -> None:
        """`on_end` hears why, once, if the process ends by itself."""
        self.name = name
        self._on_deliveries, self._on_end = on_deliveries, on_end
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe = -1
        self._waiting = bytearray()
        """What the pipe had no room for."""
        self._writing = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._source: asyncio.BaseTransport | None = None
        self._is_over = False
        self.asked_s = math.inf
        """When it was asked whether it is at work, if it has not answered yet."""

    async def start(self) -> None:
        """Returns when the process can encode. Raises RuntimeError if it ends instead, TimeoutError if it does
        nothing."""
        self._loop = asyncio.get_running_loop()
        source = os.fdopen(await asyncio.to_thread(self._spawn), "rb")
        deliveries = _Deliveries(self._on_deliveries, self._has_answered, self._has_ended)
        self._source, _ = await self._loop.connect_read_pipe(lambda: deliveries, source)
        async with asyncio.timeout(START_S):
            await deliveries.is_ready.wait()
        if deliveries.has_ended:
            raise RuntimeError(f"{self.name} did not start")

    def _spawn(self) -> int:
        """The descriptor that its deliveries come from."""
        source, sink = os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "realtime.runtime.encoder_main", str(sink)],
                stdin=subprocess.PIPE,
                pass_fds=[sink],
                env={**os.environ, "PYTHONPATH": _import_path()},
            )
        finally:
            os.close(sink)
        assert self._process.stdin is not None
        self._pipe = self._process.stdin.fileno()
        os.set_blocking(self._pipe, False)
        for descriptor in (source, self._pipe):
            _widen(descriptor)
        return source

    def put(self, items: Sequence[WorkItem], *, always: bool = False) -> None:
        """Never waits: what the pipe has no room for is written by the event loop when it has. Raises MailboxFull if
        too much waits already, unless `always`. What is put after the end is lost: its sessions are told of that."""
        packed = pack(items)
        with self._writing:
            if self._is_over:
                return
            if self._waiting:
                if len(self._waiting) > MAX_WAITING_BYTES and not always:
                    raise MailboxFull(f"{self.name} has not taken {len(self._waiting) >> 20} MiB of work")
                self._waiting += packed
            elif left := packed[self._write(packed) :]:
                self._waiting += left
                assert self._loop is not None
                self._loop.call_soon_threadsafe(self._wait_for_room)

    def ask(self, now: float) -> None:
        """An empty piece of work, which is answered by an empty delivery as soon as it is read."""
        if self.asked_s == math.inf:
            self.asked_s = now
            self.put([], always=True)

    def _has_answered(self) -> None:
        self.asked_s = math.inf

    def _wait_for_room(self) -> None:
        with self._writing:
            if self._waiting and not self._is_over:
                assert self._loop is not None
                self._loop.add_writer(self._pipe, self._go_on)

    def _go_on(self) -> None:
        with self._writing:
            del self._waiting[: self._write(self._waiting)]
            if not self._waiting:
                assert self._loop is not None
                self._loop.remove_writer(self._pipe)

    def _write(self, data: bytes | bytearray) -> int:
        """How much was taken. A broken pipe takes everything: the reader of its deliveries has noticed, too."""
        try:
            return os.write(self._pipe, data)
        except BlockingIOError:
            return 0
        except BrokenPipeError:
            return len(data)

    def stop(self) -> None:
        """Work under way is dropped."""
        with self._writing:
            has_waiting, self._is_over = bool(self._waiting), True
            self._waiting.clear()
        if has_waiting and self._loop is not None:
            self._loop.remove_writer(self._pipe)
        if self._source is not None:
            self._source.close()
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.kill()
            self._process.stdin.close()
            self._process.wait()

    def _has_ended(self) -> None:
        if self._is_over:
            return
        assert self._process is not None
        try:
            status: object = self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            status = "unknown"
        self._on_end(f"{self.name} ended, status {status}")


class _Deliveries(asyncio.Protocol):
    def __init__(
        self,
        on_deliveries: Callable[[list[Delivery]], None],
        on_answer: Callable[[], None],
        on_end: Callable[[], None],
    ) -> None:
        self._on_deliveries, self._on_answer, self._on_end = on_deliveries, on_answer, on_end
        self._unpacker = Unpacker()
        self.is_ready = asyncio.Event()
        self.has_ended = False

    def data_received(self, data: bytes) -> None:
        batches: list[list[Delivery]] = self._unpacker.push(data)
        if [] in batches:
            self.is_ready.set()
            self._on_answer()
        if deliveries := [delivery for batch in batches for delivery in batch]:
            self._on_deliveries(deliveries)

    def connection_lost(self, exc: Exception | None) -> None:
        self.has_ended = True
        self.is_ready.set()
        self._on_end()


def _import_path() -> str:
    """The server's own, without the folder that it was started in, whose files may bear any module's name. Ours come
    last, behind the standard library, as that folder may be theirs."""
    return os.pathsep.join([*(path for path in sys.path if not _is_here(path)), str(PACKAGES)])


def _is_here(path: str) -> bool:
    try:
        return Path(path).samefile(Path())
    except OSError:  # there is no such folder
        return False


def _widen(pipe: int) -> None:
    """Where the system lets us (Linux)."""
    if sys.platform == "linux":
        import fcntl

        try:
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        except OSError as error:
            log.debug("pipes keep their size: %s", error)
