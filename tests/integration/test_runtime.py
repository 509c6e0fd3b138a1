"""The threads between event loop and engine, with a null engine: order, barge-in, cross-talk, failure."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import numpy as np
import pytest

from engine.api import Sampling, Voice
from engine.null import FRAME_SAMPLES, TONES_HZ, NullEngine
from realtime.protocol.events import OutputSpec
from realtime.runtime.delivery import Delivery, StreamClosed, UnitChunk
from realtime.runtime.mailbox import Mailbox, MailboxFull
from realtime.runtime.runtime import Runtime
from realtime.scheduler.job import (
    Begin,
    Cancel,
    Close,
    End,
    Failed,
    Mark,
    MarkReached,
    Open,
    SessionId,
    Speak,
    UtteranceDone,
    UtteranceId,
    Warm,
)
from tests.server_process import children_of

DEADLINE_S = 10.0
RATE_HZ = 24_000


class Listener:
    """Collects deliveries and waits for what a test expects."""

    def __init__(self) -> None:
        self.deliveries: list[Delivery] = []
        self.failure: str | None = None
        self._changed = asyncio.Event()

    def take(self, deliveries: list[Delivery]) -> None:
        self.deliveries += deliveries
        self._changed.set()

    def fail(self, message: str) -> None:
        self.failure = message
        self._changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    def of(self, session: int, kind: type) -> list:
        return [d for d in self.deliveries if isinstance(d, kind) and d.session == session]

    def pcm(self, session: int, utterance: int | None = None) -> np.ndarray:
        chunks = [d for d in self.of(session, UnitChunk) if utterance in (None, d.utterance)]
        return np.frombuffer(b"".join(c.chunk.data for c in chunks), np.int16)


@asynccontextmanager
async def running(engine: NullEngine, **options: float) -> AsyncIterator[tuple[Runtime, Listener]]:
    listener = Listener()
    runtime = Runtime(engine, on_deliveries=listener.take, on_failure=listener.fail, workers=2, **options)
    await runtime.start()
    try:
        yield runtime, listener
    finally:
        runtime.stop()


def begin(runtime: Runtime, engine: NullEngine, session: int, voice: str = "low", utterance: int = 1) -> None:
    if utterance == 1:
        runtime.send(Open(SessionId(session), engine.voices[voice]))
        runtime.open_stream(SessionId(session), UtteranceId(utterance), OutputSpec("pcm"))
    runtime.send(Begin(SessionId(session), UtteranceId(utterance), Sampling(), 30.0))


def say(runtime: Runtime, session: int, text: str, *, unit: int = 0, utterance: int = 1, frames: int = 500) -> None:
    runtime.send(Speak(SessionId(session), UtteranceId(utterance), unit, text, frames))


def end(runtime: Runtime, session: int, utterance: int = 1) -> None:
    runtime.send(End(SessionId(session), UtteranceId(utterance)))


def pitch_hz(pcm: np.ndarray) -> float:
    return float(np.argmax(np.abs(np.fft.rfft(pcm.astype(float)))) * RATE_HZ / len(pcm))


@pytest.mark.parametrize("frames", [0, 1, 3, 4, 5, 12])
async def test_n_frames_then_the_end_give_exactly_n_frames_of_sound(frames: int) -> None:
    engine = NullEngine(slots=2, frames_of=lambda _: frames)
    async with running(engine) as (runtime, heard):
        begin(runtime, engine, 1)
        say(runtime, 1, "Hello.")
        end(runtime, 1)
        await heard.until(lambda: bool(heard.of(1, UtteranceDone)))
        runtime.close_stream(SessionId(1), UtteranceId(1))
        await heard.until(lambda: bool(heard.of(1, StreamClosed)))
        assert len(heard.pcm(1)) == frames * FRAME_SAMPLES
        assert isinstance(heard.deliveries[-1], StreamClosed)


async def test_a_device_that_hangs_is_seen_although_its_thread_still_takes_newcomers() -> None:
    engine = NullEngine(slots=3, step_s=1e9)
    async with running(engine) as (runtime, heard):
        begin(runtime, engine, 1)
        say(runtime, 1, "Hello.")
        begin(runtime, engine, 2)
        await heard.until(lambda: bool(heard.of(2, Warm)))  # a unit's prefill comes first, and its step
        assert engine.steps
        last_seen_s = -runtime.silent_s(0.0)
        begin(runtime, engine, 3)
        await heard.until(lambda: bool(heard.of(3, Warm)))
        assert -runtime.silent_s(0.0) == last_seen_s


async def test_a_unit_that_never_stops_is_cut_at_its_limit_and_says_so() -> None:
    engine = NullEngine(slots=1, frames_of=lambda _: 10**9)
    async with running(engine) as (runtime, heard):
        begin(runtime, engine, 1)
        say(runtime, 1, "Babble.", frames=20)
        end(runtime, 1)
        await heard.until(lambda: bool(heard.of(1, UtteranceDone)))
        assert len(heard.pcm(1)) == 20 * FRAME_SAMPLES
        assert [d.is_cut for d in heard.deliveries if hasattr(d, "is_cut")] == [True]


async def test_sessions_that_start_together_keep_their_own_voices_from_the_first_sample() -> None:
    engine = NullEngine(slots=8, frames_of=lambda _: 10)
    async with running(engine) as (runtime, heard):
        for session in range(1, 41):
            begin(runtime, engine, session, "low" if session % 2 else "high")
            say(runtime, session, "Hello.")
            end(runtime, session)
        await heard.until(lambda: len([d for d in heard.deliveries if isinstance(d, UtteranceDone)]) == 40)
        for session in range(1, 41):
            pcm = heard.pcm(session)
            assert len(pcm) == 10 * FRAME_SAMPLES
            expected = TONES_HZ["low" if session % 2 else "high"]
            assert abs(pitch_hz(pcm[: 2 * FRAME_SAMPLES]) - expected) < 15
            assert abs(pitch_hz(pcm) - expected) < 3


async def test_after_a_cancel_only_the_next_utterance_is_heard() -> None:
    engine = NullEngine(slots=1, frames_of=lambda _: 400, step_s=0.001)
    async with running(engine) as (runtime, heard):
        begin(runtime, engine, 1)
        say(runtime, 1, "A long speech.")
        await heard.until(lambda: len(heard.of(1, UnitChunk)) >= 3)
        runtime.send(Cancel(SessionId(1), UtteranceId(1)))
        runtime.skip_to(SessionId(1), UtteranceId(2))
        steps_at_cancel = sum(len(plan.decode) for plan in engine.steps)
        begin(runtime, engine, 1, utterance=2)
        say(runtime, 1, "B.", utterance=2, frames=5)
        end(runtime, 1, utterance=2)
        await heard.until(lambda: bool(heard.of(1, UtteranceDone)))
        assert len(heard.pcm(1, 2)) == 5 * FRAME_SAMPLES
        assert len(heard.pcm(1, 1)) < 100 * FRAME_SAMPLES
        extra = sum(len(plan.decode) for plan in engine.steps) - steps_at_cancel
        assert extra <= 5 + 1 + 4, "the cancelled unit went on for more than the steps in flight"


async def test_a_session_that_closes_frees_its_slot_and_stops_the_engine() -> None:
    engine = NullEngine(slots=1, frames_of=lambda _: 10_000, step_s=0.001)
    async with running(engine) as (runtime, heard):
        begin(runtime, engine, 1)
        say(runtime, 1, "Endless.", frames=10_000)
        await heard.until(lambda: len(heard.of(1, UnitChunk)) >= 3)
        runtime.send(Close(SessionId(1)))
        begin(runtime, engine, 2)
        say(runtime, 2, "Next.", frames=3)
        end(runtime, 2)
        await heard.until(lambda: bool(heard.of(2, UtteranceDone)))
        assert runtime.slots_used == 1


async def test_marks_come_in_stream_order_after_the_sound_before_them() -> None:
    engine = NullEngine(slots=1, frames_of=lambda _: 6)
    async with running(engine) as (runtime, heard):
        begin(runtime, engine, 1)
        runtime.send(Mark(SessionId(1), UtteranceId(1), 1))
        say(runtime, 1, "One.")
        runtime.send(Mark(SessionId(1), UtteranceId(1), 2))
        say(runtime, 1, "Two.", unit=1)
        runtime.send(Mark(SessionId(1), UtteranceId(1), 3))
        end(runtime, 1)
        await heard.until(lambda: bool(heard.of(1, UtteranceDone)))
        samples, at_mark = 0, {}
        for delivery in heard.deliveries:
            if isinstance(delivery, UnitChunk):
                samples += len(delivery.chunk.data) // 2
            elif isinstance(delivery, MarkReached):
                at_mark[delivery.seq] = samples
        assert at_mark == {1: 0, 2: 6 * FRAME_SAMPLES, 3: 12 * FRAME_SAMPLES}


async def test_more_sessions_than_slots_all_speak_as_long_as_slots_become_free() -> None:
    engine = NullEngine(slots=2, frames_of=lambda _: 3)
    async with running(engine) as (runtime, heard):
        for session in range(1, 21):
            begin(runtime, engine, session)
            say(runtime, session, "Hello.")
            end(runtime, session)
        await heard.until(lambda: len([d for d in heard.deliveries if isinstance(d, UtteranceDone)]) == 20)


async def test_a_session_that_waits_too_long_for_a_slot_is_told() -> None:
    engine = NullEngine(slots=1, frames_of=lambda _: 10**6, step_s=0.001)
    async with running(engine, queue_s=0.2) as (runtime, heard):
        begin(runtime, engine, 1)
        say(runtime, 1, "Endless.", frames=10**6)
        await heard.until(lambda: bool(heard.of(1, UnitChunk)))
        begin(runtime, engine, 2)
        say(runtime, 2, "Me too.")
        await heard.until(lambda: bool(heard.of(2, Failed)))
        assert heard.of(2, Failed)[0].code == "overloaded"
        assert heard.of(1, Failed) == []


async def test_the_death_of_the_engine_is_an_event_and_not_a_silence() -> None:
    engine = NullEngine(slots=1, fail_at_step=3)
    async with running(engine) as (runtime, heard):
        begin(runtime, engine, 1)
        say(runtime, 1, "A sentence that takes more than three steps.")
        await heard.until(lambda: heard.failure is not None)
        assert "step" in str(heard.failure)
        assert not runtime.is_healthy


async def test_the_death_of_an_encoder_process_is_an_event_and_not_a_silence() -> None:
    engine = NullEngine(slots=1, frames_of=lambda _: 10**6, step_s=0.001)
    async with running(engine) as (runtime, heard):
        begin(runtime, engine, 1)
        say(runtime, 1, "Endless.", frames=10**6)
        await heard.until(lambda: bool(heard.of(1, UnitChunk)))
        for process in children_of(os.getpid()):
            os.kill(process, signal.SIGKILL)
        await heard.until(lambda: heard.failure is not None)
        assert "encoder process" in str(heard.failure)
        assert not runtime.is_healthy


async def test_an_encoder_process_that_takes_nothing_holds_nobody_up_and_loses_nothing() -> None:
    """More than its pipe holds waits while it is stopped; then all of it comes out."""
    frames = 540
    engine = NullEngine(slots=1, frames_of=lambda _: frames)
    async with running(engine) as (runtime, heard):
        begin(runtime, engine, 1)
        await heard.until(lambda: bool(heard.of(1, Warm)))
        for process in children_of(os.getpid()):
            os.kill(process, signal.SIGSTOP)
        say(runtime, 1, "A long speech.", frames=frames)
        end(runtime, 1)
        async with asyncio.timeout(DEADLINE_S):
            while sum(len(plan.decode) for plan in engine.steps) < frames or runtime.sessions_speaking:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        for process in children_of(os.getpid()):
            os.kill(process, signal.SIGCONT)
        await heard.until(lambda: bool(heard.of(1, UtteranceDone)))
        assert len(heard.pcm(1)) == frames * FRAME_SAMPLES


async def test_an_encoder_process_that_does_not_answer_is_silence() -> None:
    engine = NullEngine(slots=1)
    async with running(engine) as (runtime, heard):
        begin(runtime, engine, 1)
        await heard.until(lambda: bool(heard.of(1, Warm)))
        for process in children_of(os.getpid()):
            os.kill(process, signal.SIGSTOP)
        asked_s = time.monotonic() - 1_000.0
        runtime.ask_encoders(asked_s)
        await asyncio.sleep(0.2)
        assert runtime.silent_s(asked_s + 9.0) == pytest.approx(9.0)
        assert not runtime.is_healthy
        for process in children_of(os.getpid()):
            os.kill(process, signal.SIGCONT)
        async with asyncio.timeout(DEADLINE_S):
            while not runtime.is_healthy:  # noqa: ASYNC110
                await asyncio.sleep(0.01)


async def test_a_warm_up_is_reported_once_with_its_voice() -> None:
    engine = NullEngine(slots=1)
    async with running(engine) as (runtime, heard):
        runtime.send(Open(SessionId(1), engine.voices["high"]))
        await heard.until(lambda: bool(heard.of(1, Warm)))
        begin(runtime, engine, 1, utterance=2)
        say(runtime, 1, "Hi.", utterance=2)
        end(runtime, 1, utterance=2)
        assert [warm.voice.name for warm in heard.of(1, Warm)] == ["high"]


class SlowEncoder(NullEngine):
    """Encodes a clip when it is told to; the clip b"bad" breaks it."""

    def __init__(self) -> None:
        super().__init__(slots=1)
        self.begun, self.told = threading.Event(), threading.Event()

    def encode_reference(self, clip: bytes, transcript: str, name: str) -> Voice:
        if clip == b"bad":
            raise RuntimeError("the decoder tripped over the clip")
        self.begun.set()
        assert self.told.wait(DEADLINE_S)
        return super().encode_reference(clip, transcript, name)


async def test_nobody_who_speaks_waits_for_a_clip() -> None:
    engine = SlowEncoder()
    async with running(engine) as (runtime, heard):
        clip = asyncio.create_task(runtime.encode_reference(b"clip", "What it says.", "mine"))
        begin(runtime, engine, 1)
        say(runtime, 1, "Hello.")
        end(runtime, 1)
        await heard.until(lambda: bool(heard.of(1, UtteranceDone)))
        assert len(heard.pcm(1))
        assert not clip.done()
        engine.told.set()
        assert (await clip).name == "mine"


async def test_a_clip_under_way_does_not_hold_up_the_end_but_is_told() -> None:
    engine = SlowEncoder()
    async with running(engine) as (runtime, _):
        clip = asyncio.create_task(runtime.encode_reference(b"clip", "What it says.", "mine"))
        async with asyncio.timeout(DEADLINE_S):
            await asyncio.to_thread(engine.begun.wait, DEADLINE_S)
        assert not runtime.stop(timeout_s=0.01)
        engine.told.set()
        await clip
        assert runtime.stop(timeout_s=DEADLINE_S)


async def test_a_clip_that_breaks_the_encoder_harms_nothing_else() -> None:
    engine = SlowEncoder()
    engine.told.set()
    async with running(engine) as (runtime, heard):
        with pytest.raises(RuntimeError, match="tripped"):
            await runtime.encode_reference(b"bad", "What it says.", "mine")
        assert (await runtime.encode_reference(b"clip", "What it says.", "mine")).name == "mine"
        assert runtime.is_healthy
        assert heard.failure is None


def test_a_mailbox_keeps_order_and_refuses_what_it_cannot_hold() -> None:
    box: Mailbox[int] = Mailbox(3)
    for item in (1, 2, 3):
        box.put(item)
    with pytest.raises(MailboxFull):
        box.put(4)
    assert box.take_all() == [1, 2, 3]
    assert box.take_all() == []
