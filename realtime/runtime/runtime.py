"""The threads and processes between the event loop and the engine, as one object with a small surface.

All methods are called on the event loop's thread. Deliveries come back there, too.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

from engine.api import Engine, Voice
from realtime.audio.pauses import QUIET_DBFS
from realtime.protocol.events import OutputSpec
from realtime.runtime.clip_loop import ClipLoop, EncodeReference
from realtime.runtime.delivery import Delivery
from realtime.runtime.encoders import EncoderProcess
from realtime.runtime.engine_loop import (
    DecodeItem,
    DecodeLoop,
    PrefillItem,
    PrefillLoop,
    StepTimes,
    Stop,
)
from realtime.runtime.mailbox import Mailbox
from realtime.runtime.worker import CloseStream, Forget, OpenStream, SkipTo
from realtime.scheduler.job import Close, Command, Output, SessionId, UtteranceId
from realtime.scheduler.scheduler import Scheduler

__all__ = ["Runtime"]

log = logging.getLogger(__name__)

INBOX_ITEMS = 65_536
CLIPS_WAITING = 64
"""Reference clips that wait to be encoded; each may have megabytes."""
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
        """`on_failure` is called once, on the loop, when a thread or a process died: nothing can be spoken any more."""
        self.engine = engine
        self._on_failure = on_failure
        self._scheduler = Scheduler(engine.limits, queue_s=queue_s, quiet_dbfs=quiet_dbfs)
        self._inbox: Mailbox[DecodeItem] = Mailbox(INBOX_ITEMS)
        self._prefills: Mailbox[PrefillItem] = Mailbox(INBOX_ITEMS)
        self._clips: Mailbox[EncodeReference | None] = Mailbox(CLIPS_WAITING)
        self._encoders = [EncoderProcess(f"encoder process {n}", on_deliveries, self._fail) for n in range(workers)]
        self._decode = DecodeLoop(engine, self._scheduler, self._inbox, self._prefills, self._publish, observe)
        self._threads: list[threading.Thread] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._failure: str | None = None

    # ---- life ------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Raises what EncoderProcess.start raises."""
        self._loop = asyncio.get_running_loop()
        await asyncio.gather(*(process.start() for process in self._encoders))
        prefill = PrefillLoop(self.engine, self._prefills, self._inbox)
        clips = ClipLoop(self.engine, self._clips)
        runs: list[tuple[str, Callable[[], None]]] = [
            ("decode", self._decode.run),
            ("prefill", prefill.run),
            ("clips", clips.run),
        ]
        for name, run in runs:
            thread = threading.Thread(target=self._guarded, args=(name, run), name=f"kingfisher-{name}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self, timeout_s: float = 5.0) -> bool:
        """End threads and processes, and close the engine; work under way is dropped. False if a thread did not end in
        time: the engine is then still in use."""
        self._inbox.put(Stop(), always=True)
        self._prefills.put(Stop(), always=True)
        self._clips.put(None, always=True)
        for process in self._encoders:
            process.stop()
        deadline = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        has_ended = not any(thread.is_alive() for thread in self._threads)
        if has_ended:
            self.engine.close()
        return has_ended

    @property
    def is_healthy(self) -> bool:
        """All threads and processes live and the decode thread came round lately."""
        is_stale = self.silent_s(time.monotonic()) > STALE_HEARTBEAT_S
        return self._failure is None and bool(self._threads) and not is_stale

    def silent_s(self, now: float) -> float:
        """How long ago the decode thread came round, or an encoder process was asked that has not answered."""
        return now - min(self._decode.heartbeat_s, *(process.asked_s for process in self._encoders))

    def ask_encoders(self, now: float) -> None:
        """Whether they are at work: see `silent_s`."""
        for process in self._encoders:
            process.ask(now)

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
            self._encoder(command.session).put([Forget(command.session)], always=True)

    def open_stream(self, session: SessionId, utterance: UtteranceId, output: OutputSpec) -> None:
        """A new container for the session, which begins with this utterance; call it before the utterance's Begin."""
        self._encoder(session).put([OpenStream(session, utterance, output, self.engine.limits.sample_rate_hz)])

    def skip_to(self, session: SessionId, utterance: UtteranceId) -> None:
        """Barge-in: audio of earlier utterances that is still on its way is dropped."""
        self._encoder(session).put([SkipTo(session, utterance)])

    def close_stream(self, session: SessionId, utterance: UtteranceId) -> None:
        """Answered by StreamClosed."""
        self._encoder(session).put([CloseStream(session, utterance)])

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

    def _encoder(self, session: SessionId) -> EncoderProcess:
        return self._encoders[session % len(self._encoders)]

    def _publish(self, outputs: list[Output]) -> None:
        """Decode thread: hand each session's outputs to its encoder."""
        shares: dict[int, list[Output]] = {}
        for output in outputs:
            shares.setdefault(output.session % len(self._encoders), []).append(output)
        for index, share in shares.items():
            self._encoders[index].put(share)
