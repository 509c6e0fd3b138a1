"""The threads between the event loop and the engine, as one object with a small surface.

All methods are called on the event loop's thread. Deliveries come back there too: whatever a batch of work produced
costs one wake-up of the loop.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial

from engine.api import Engine, Voice
from realtime.audio.encoder import AudioEncoder
from realtime.audio.pauses import QUIET_DBFS
from realtime.runtime.clip_loop import ClipLoop, EncodeReference
from realtime.runtime.delivery import Delivery
from realtime.runtime.engine_loop import (
    DecodeItem,
    DecodeLoop,
    PrefillItem,
    PrefillLoop,
    StepTimes,
    Stop,
)
from realtime.runtime.mailbox import Mailbox
from realtime.runtime.slices import step_back
from realtime.runtime.worker import CloseStream, Forget, OpenStream, SkipTo, Worker, WorkItem
from realtime.scheduler.job import Close, Command, Output, SessionId, UtteranceId
from realtime.scheduler.scheduler import Scheduler

__all__ = ["Runtime"]

log = logging.getLogger(__name__)

INBOX_ITEMS = 65_536
CLIPS_WAITING = 64
"""Reference clips that wait to be encoded; each may have megabytes."""
ENCODER_NICENESS = 5
"""Most of what they make is wanted seconds later; the event loop and the engine's threads are waited for. A third of an
ordinary share, so that a CPU model beside them leaves them enough for the first sounds."""
STALE_HEARTBEAT_S = 8.0
"""A decode thread that has not come round for so long is not healthy. A step takes well under a second."""


class Runtime:
    def __init__(
        self,
        engine: Engine,
        *,
        on_deliveries: Callable[[list[Delivery]], None],
        on_failure: Callable[[str], None],
        observe: Callable[[StepTimes], None] = lambda _: None,
        workers: int = 1,
        queue_s: float = 10.0,
        quiet_dbfs: float = QUIET_DBFS,
    ) -> None:
        """`on_failure` is called once, on the loop, when a thread died: nothing can be spoken any more."""
        self.engine = engine
        self._on_deliveries, self._on_failure = on_deliveries, on_failure
        self._scheduler = Scheduler(engine.limits, queue_s=queue_s, quiet_dbfs=quiet_dbfs)
        self._inbox: Mailbox[DecodeItem] = Mailbox(INBOX_ITEMS)
        self._prefills: Mailbox[PrefillItem] = Mailbox(INBOX_ITEMS)
        self._clips: Mailbox[EncodeReference | None] = Mailbox(CLIPS_WAITING)
        self._work: list[Mailbox[WorkItem]] = [Mailbox(INBOX_ITEMS) for _ in range(workers)]
        self._decode = DecodeLoop(engine, self._scheduler, self._inbox, self._prefills, self._publish, observe)
        self._threads: list[threading.Thread] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready: list[Delivery] = []
        self._ready_lock = threading.Lock()
        self._failure: str | None = None

    # ---- life ------------------------------------------------------------------------------------------

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        prefill = PrefillLoop(self.engine, self._prefills, self._inbox)
        clips = ClipLoop(self.engine, self._clips)
        runs: list[tuple[str, Callable[[], None]]] = [
            ("decode", self._decode.run),
            ("prefill", prefill.run),
            ("clips", clips.run),
        ]
        runs += [(f"encode-{i}", partial(_encode, Worker(box, self._deliver))) for i, box in enumerate(self._work)]
        for name, run in runs:
            thread = threading.Thread(target=self._guarded, args=(name, run), name=f"kingfisher-{name}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self, timeout_s: float = 5.0) -> bool:
        """End the threads and close the engine; work under way is dropped. False if a thread did not end in time: the
        engine is then still in use."""
        self._inbox.put(Stop(), always=True)
        self._prefills.put(Stop(), always=True)
        self._clips.put(None, always=True)
        for box in self._work:
            box.put(None, always=True)
        deadline = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        has_ended = not any(thread.is_alive() for thread in self._threads)
        if has_ended:
            self.engine.close()
        return has_ended

    @property
    def is_healthy(self) -> bool:
        """All threads live and the decode thread came round lately."""
        is_stale = self.silent_s(time.monotonic()) > STALE_HEARTBEAT_S
        return self._failure is None and bool(self._threads) and not is_stale

    def silent_s(self, now: float) -> float:
        """How long ago the decode thread came round."""
        return now - self._decode.heartbeat_s

    def _guarded(self, name: str, run: Callable[[], None]) -> None:
        try:
            run()
        except BaseException as error:  # the end of the thread, whatever the cause, is an event for everyone
            log.exception("the %s thread died", name)
            message = f"the {name} thread died: {error}"
            if self._loop is not None and not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._fail, message)

    def _fail(self, message: str) -> None:
        if self._failure is None:
            self._failure = message
            self._on_failure(message)

    # ---- from the event loop ---------------------------------------------------------------------------

    def send(self, command: Command) -> None:
        """Raises MailboxFull when the engine is hopelessly behind; never for a Close, which must not be lost."""
        is_close = isinstance(command, Close)
        self._inbox.put(command, always=is_close)
        if is_close:
            self._worker(command.session).put(Forget(command.session), always=True)

    def open_stream(self, session: SessionId, utterance: UtteranceId, make_encoder: Callable[[], AudioEncoder]) -> None:
        """A new container for the session, which begins with this utterance; call it before the utterance's Begin."""
        self._worker(session).put(OpenStream(session, utterance, make_encoder))

    def skip_to(self, session: SessionId, utterance: UtteranceId) -> None:
        """Barge-in: audio of earlier utterances that is still on its way is dropped."""
        self._worker(session).put(SkipTo(session, utterance))

    def close_stream(self, session: SessionId, utterance: UtteranceId) -> None:
        """Answered by StreamClosed."""
        self._worker(session).put(CloseStream(session, utterance))

    async def encode_reference(self, clip: bytes, transcript: str, name: str) -> Voice:
        """Raises engine.api.BadReference, MailboxFull, and whatever else goes wrong with this clip alone."""
        done: Future[Voice] = Future()
        self._clips.put(EncodeReference(clip, transcript, name, done))
        return await asyncio.wrap_future(done)

    @property
    def slots_used(self) -> int:
        return self._scheduler.slots_used

    @property
    def sessions_speaking(self) -> int:
        return self._scheduler.sessions_speaking

    # ---- between the threads ---------------------------------------------------------------------------

    def _worker(self, session: SessionId) -> Mailbox[WorkItem]:
        return self._work[session % len(self._work)]

    def _publish(self, outputs: list[Output]) -> None:
        """Decode thread: hand each session's outputs to its worker."""
        if len(self._work) == 1:
            self._work[0].put(outputs)
            return
        shares: dict[int, list[Output]] = {}
        for output in outputs:
            shares.setdefault(output.session % len(self._work), []).append(output)
        for index, share in shares.items():
            self._work[index].put(share)

    def _deliver(self, deliveries: list[Delivery]) -> None:
        """Worker threads: add to what the loop will take; wake it if it has not been woken yet."""
        with self._ready_lock:
            is_first = not self._ready
            self._ready += deliveries
        if is_first and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._take_ready)

    def _take_ready(self) -> None:
        with self._ready_lock:
            ready, self._ready = self._ready, []
        self._on_deliveries(ready)


def _encode(worker: Worker) -> None:
    step_back(ENCODER_NICENESS)
    worker.run()
