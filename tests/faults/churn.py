"""Sessions that come, speak, are cut off and leave, straight at an engine: what serving costs its device shows here."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import numpy as np

from engine.api import Engine, Sampling, Voice
from realtime.scheduler.job import Begin, Cancel, Close, End, Failed, Open, SessionId, Speak, UnitAudio, UtteranceDone
from realtime.scheduler.job import UtteranceId as Utterance
from realtime.scheduler.policy import speech_limit_frames
from realtime.scheduler.scheduler import Scheduler

__all__ = ["Churn"]

TEXTS = ("Yes.", "Your order will arrive on Friday morning.", "Please wait a moment while I look that up for you now.")
MAX_UNITS = 12
"""From a word to some forty seconds."""
CUT, NEW_VOICE = 0.3, 0.1
ONLY = Utterance(1)
STEP_S = 0.01
NO_LIMIT_S = 1e9


class Churn:
    """As many sessions as there are slots, each for one turn. Three in ten are cut off at their first sound, and one in
    ten brings a voice that nobody had before."""

    def __init__(self, engine: Engine, seed: int = 1) -> None:
        self._engine, self._chance = engine, random.Random(seed)
        self._scheduler = Scheduler(engine.limits, queue_s=NO_LIMIT_S)
        self._now = 0.0
        self._sessions = 0
        self._speaking: dict[SessionId, bool] = {}
        """Each with whether it will be cut off."""
        self.counts: Counter[str] = Counter()

    def run(self, turns: int, after_each: Callable[[], None] = lambda: None) -> None:
        """Until so many turns are over, and no slot is held. Raises AssertionError where one fails."""
        over = 0
        while over < turns:
            while len(self._speaking) < min(self._engine.limits.slots, turns - over):
                self._come()
            self._step()
            for session in self._ended():
                self._scheduler.submit(Close(session), self._now)
                del self._speaking[session]
                over += 1
                after_each()
        self._scheduler.check_integrity()
        assert self._scheduler.slots_used == 0

    def _come(self) -> None:
        self._sessions += 1
        session = SessionId(self._sessions)
        self._speaking[session] = self._chance.random() < CUT
        seed, frame_s = self._chance.randrange(1 << 31), self._engine.limits.frame_s
        self._scheduler.submit(Open(session, self._voice()), self._now)
        self._scheduler.submit(Begin(session, ONLY, Sampling(seed=seed), NO_LIMIT_S), self._now)
        for unit in range(self._chance.randint(1, MAX_UNITS)):
            text = self._chance.choice(TEXTS)
            self._scheduler.submit(Speak(session, ONLY, unit, text, speech_limit_frames(text, frame_s)), self._now)
        self._scheduler.submit(End(session, ONLY), self._now)

    def _voice(self) -> Voice:
        known = self._chance.choice(list(self._engine.voices.values()))
        if self._chance.random() >= NEW_VOICE:
            return known
        self.counts["new voices"] += 1
        return Voice(f"new-{self._sessions}", known.transcript, np.roll(known.codes, self._sessions, axis=1))

    def _step(self) -> None:
        self._now += STEP_S
        if (order := self._scheduler.next_prefill(self._now)) is not None:
            self._scheduler.prefilled(self._engine.prefill(order), self._now)
        if (plan := self._scheduler.plan(self._now)) is not None:
            self._scheduler.apply(self._engine.collect(self._engine.submit(plan)), self._now)

    def _ended(self) -> list[SessionId]:
        """Those who said everything, and those who are cut off now."""
        ended: dict[SessionId, str] = {}
        for output in self._scheduler.take_outputs():
            assert not isinstance(output, Failed), f"a turn failed: {output}"
            if isinstance(output, UtteranceDone):
                ended[output.session] = "whole"
            elif isinstance(output, UnitAudio) and self._speaking[output.session] and output.session not in ended:
                ended[output.session] = "cut off"
                self._scheduler.submit(Cancel(output.session, ONLY), self._now)
        self.counts.update(ended.values())
        return list(ended)
