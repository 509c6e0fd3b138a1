"""Faults of sessions that share one engine (groups E to H of tests/FAULTS.md)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pytest

from engine.api import Prefill, PrefillResult, Sampling
from engine.null import NullEngine
from realtime.scheduler.job import Begin, Open, SessionId, Speak, UnitAudio, UtteranceId
from realtime.scheduler.scheduler import Scheduler
from tests.e2e.live import Server, all_of, pcm, running, tone_hz

CUTS = 20
ROUNDS = [40, pytest.param(200, marks=pytest.mark.slow)]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running(engine={"slots": 16}) as server:
        yield server


@pytest.mark.parametrize("label", [None, "", "the same"])
async def test_fault_43_an_id_of_the_clients_is_only_a_label(server: Server, label: str | None) -> None:
    async def one(word: str) -> float:
        async with server.caller() as caller:
            extra = {} if label is None else {"context_id": label, "id": label, "request_id": label}
            request = {"format": "pcm", "text": f"The tone of this one is {word}. ", "max_lead_s": 30}
            await caller.say("start", request=request, **extra)
            await caller.say("stop")
            assert (await caller.hear("finish"))["reason"] == "stop"
            return tone_hz(pcm(caller.heard))

    words = ["low", "high"] * 25
    tones = []
    for begin in range(0, 50, 16):
        tones += await all_of(*map(one, words[begin : begin + 16]))
    assert tones == [pytest.approx(700 if word == "high" else 300, abs=2) for word in words]


@pytest.mark.parametrize("rounds", ROUNDS)
async def test_fault_48_a_cached_voice_and_a_new_one_in_the_same_tick_both_speak(server: Server, rounds: int) -> None:
    async def known() -> str:
        async with server.caller() as caller:
            return str((await caller.turn("Known.", format="pcm"))[-1]["reason"])

    async def new(number: int) -> str:
        clip = {"audio": (1000 * rounds + number).to_bytes(64, "little"), "text": "a clip nobody brought before"}
        async with server.caller() as caller:
            return str((await caller.turn("New.", format="pcm", references=[clip]))[-1]["reason"])

    for round_ in range(rounds):
        assert await all_of(known(), new(round_)) == ["stop", "stop"]
    await server.metric_becomes("kingfisher_sessions", 0)


async def test_fault_57_pings_are_answered_while_everyone_speaks_and_clips_are_encoded(server: Server) -> None:
    """Clients that ask once a second and wait for a second: with a blocked loop they would leave with 1011."""

    async def speaks(number: int) -> str:
        async with server.caller(ping_interval=1, ping_timeout=1) as caller:
            clip = {"audio": bytes([number]) * (1 << 20), "text": "a megabyte"}
            text = "Many of these are spoken at once. " * 3
            messages = await caller.turn(text, max_lead_s=0.5, references=[clip], format="opus_packets")
            return str(messages[-1]["reason"])

    assert set(await all_of(*(speaks(number) for number in range(16)))) == {"stop"}


# ---- who waits for whom, in the scheduler alone -----------------------------------------------------------------

STEP_S, PREFILL_STEPS = 0.01, 12
LEAD_S = 1.0


@dataclass
class Stage:
    """The scheduler with an engine whose prefills take a dozen steps, and a clock that the test owns."""

    slots: int
    now: float = 0.0
    heard_s: dict[int, float] = field(default_factory=dict)
    """When each session's first sound came."""
    dry: set[int] = field(default_factory=set)
    """Sessions whose listener ran out of sound before their speech was over."""

    def __post_init__(self) -> None:
        self.engine = NullEngine(slots=self.slots, frames_of=lambda request: int(request.text or 0))
        self.scheduler = Scheduler(self.engine.limits, queue_s=60.0)
        self._order: tuple[int, Prefill] | None = None
        self._steps = 0
        self._played_until: dict[int, float] = {}

    def speak(self, session: int, frames: int) -> None:
        voice = self.engine.voices["low"]
        self.scheduler.submit(Open(SessionId(session), voice), self.now)
        self.scheduler.submit(Begin(SessionId(session), UtteranceId(1), Sampling(), LEAD_S), self.now)
        self.scheduler.submit(Speak(SessionId(session), UtteranceId(1), 0, str(frames), 9_999), self.now)

    def step(self) -> None:
        self._steps += 1
        if self._order is None and (order := self.scheduler.next_prefill(self.now)) is not None:
            self._order = self._steps + PREFILL_STEPS, order
        if self._order is not None and self._order[0] <= self._steps:
            order, self._order = self._order[1], None
            self.engine.prefill(order)
            self.scheduler.prefilled(PrefillResult(order.slot, order.epoch, 9, 0, 0.1), self.now)
        plan = self.scheduler.plan(self.now)
        if plan is not None:
            self.scheduler.apply(self.engine.collect(self.engine.submit(plan)), self.now)
        for output in self.scheduler.take_outputs():
            if isinstance(output, UnitAudio):
                self._hear(int(output.session), len(output.pcm) / self.engine.limits.sample_rate_hz)
        self.now += STEP_S
        self.dry |= {session for session, until in self._played_until.items() if until < self.now}

    def _hear(self, session: int, seconds: float) -> None:
        self.heard_s.setdefault(session, self.now)
        self._played_until[session] = max(self._played_until.get(session, 0.0), self.now) + seconds


def test_fault_51_newcomers_do_not_freeze_those_who_speak_and_are_not_shut_out() -> None:
    stage = Stage(slots=16)
    for session in range(8):
        stage.speak(session, 9_999)
    while len(stage.heard_s) < 8:
        stage.step()
    asked_s: dict[int, float] = {}
    for session in range(8, 12):  # four at once …
        asked_s[session] = stage.now
        stage.speak(session, 9_999)
    for session in range(12, 16):  # … then one every 200 ms
        for _ in range(20):
            stage.step()
        asked_s[session] = stage.now
        stage.speak(session, 9_999)
    for _ in range(200):
        stage.step()
    assert stage.dry == set(), "speech under way ran dry while others were prefilled"
    waited = np.array([stage.heard_s[session] - asked for session, asked in asked_s.items()])
    # Each waits for the prefills before its own (warm-ups included) and no longer.
    assert (waited <= (8 * PREFILL_STEPS + 4) * STEP_S).all()


def test_fault_51_one_slot_is_shared_in_the_order_of_asking() -> None:
    stage = Stage(slots=1)
    for session in range(5):
        stage.speak(session, 10)
        stage.step()
    for _ in range(2_000):
        stage.step()
    assert sorted(stage.heard_s, key=stage.heard_s.__getitem__) == [0, 1, 2, 3, 4]


async def test_fault_31_a_cancel_is_answered_before_the_engine_does_another_thing(server: Server) -> None:
    """The engine may finish the step under way and the one submitted behind it; nothing of them is heard."""
    async with server.caller() as caller:
        await caller.start("This is a low tone. " * 60, format="pcm", max_lead_s=0.5)
        for _ in range(3):
            await caller.hear("audio")
        await caller.say("cancel")
        cancelled = await caller.hear("cancelled")
        rows = await server.metric("kingfisher_decode_rows_sum")
        await asyncio.sleep(1.0)  # in which a listener would hear nineteen frames
        assert await server.metric("kingfisher_decode_rows_sum") - rows <= 2
        await caller.say("text", text="And this is the high one.")
        await caller.say("stop")
        begin = len(caller.heard)
        await caller.hear("finish")
    after = [m for m in caller.heard[begin:] if m["event"] == "audio"]
    assert {m["utterance"] for m in after} == {cancelled["utterance"] + 1}
    assert tone_hz(pcm(after)) == pytest.approx(700, abs=2)


def share_of(hz: float, samples: npt.NDArray[np.int16]) -> float:
    """Of the sound's energy, what lies within 20 Hz of this."""
    energy = np.abs(np.fft.rfft(samples * np.hanning(len(samples)))) ** 2
    near = np.abs(np.fft.rfftfreq(len(samples), 1 / 24_000) - hz) <= 20
    return float(energy[near].sum() / energy.sum())


async def test_fault_31_nothing_of_the_old_text_is_heard_however_much_of_it_is_on_its_way(server: Server) -> None:
    """It is cut off while it is made as fast as it can be: some is with the engine, some encoded, some at the loop."""

    async def is_cut_off() -> None:
        async with server.caller() as caller:
            for _ in range(CUTS):
                caller.heard.clear()
                await caller.start("This is a low tone, and it goes on. " * 60, format="pcm")
                await caller.hear("audio")
                await caller.say("cancel")
                cancelled = await caller.hear("cancelled")
                begin = len(caller.heard)
                await caller.say("text", text="And this is the high one.")
                await caller.say("stop")
                await caller.hear("finish")
                after = [m for m in caller.heard[begin:] if m["event"] == "audio"]
                assert {m["utterance"] for m in after} == {cancelled["utterance"] + 1}
                assert share_of(300, pcm(after)) < 0.01
                assert share_of(700, pcm(after)) > 0.9

    await asyncio.gather(*(is_cut_off() for _ in range(4)))


@pytest.mark.slow
async def test_fault_33_five_hundred_late_stops_never_harm_the_next_turn(server: Server) -> None:
    """From 20 ms before the last sound to 50 ms behind it, as a turn before it took."""
    text, chance, loop = "A short one, at the pace of speech.", random.Random(33), asyncio.get_running_loop()
    async with server.caller() as caller:
        whole = len(pcm(await caller.turn(text, format="pcm")))
        began_s = loop.time()
        await caller.turn(text, format="pcm", max_lead_s=0.2)
        took_s = loop.time() - began_s
        crossed = 0
        for _ in range(500):
            caller.heard.clear()
            await caller.start(text, format="pcm", max_lead_s=0.2)
            await caller.say("stop")
            await asyncio.sleep(took_s + chance.uniform(-0.02, 0.05))
            await caller.say("cancel")
            await caller.hear("cancelled", "finish")
            crossed += caller.heard[-1]["event"] == "cancelled"
            messages = await caller.turn(text, format="pcm")
            assert messages[-1]["reason"] == "stop"
            assert len(pcm(messages)) == whole
    assert 0 < crossed < 500, "the stops came all before the end, or all behind it"
