"""What the scheduler makes of silence that is cut: no lead, no first sound, and times that are still true."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from engine.api import Pcm, Prefill, Sampling
from engine.null import FRAME_SAMPLES, SAMPLE_RATE_HZ, NullEngine
from realtime.audio.pauses import PRE_ROLL_MS, Pauses
from realtime.scheduler.job import Begin, End, Open, Output, SessionId, Speak, UnitAudio, UnitDone, UtteranceId
from realtime.scheduler.scheduler import Scheduler

FRAME_S = FRAME_SAMPLES / SAMPLE_RATE_HZ
STEP_S = 0.01
KEY = SessionId(1), UtteranceId(1)


def as_drawn(request: Prefill, frame: int) -> Pcm:
    """The text is the sound: a # is a frame of it, anything else and what comes behind is silence."""
    is_sound = (request.text or "")[frame : frame + 1] == "#"
    return np.full(FRAME_SAMPLES, 5_000 if is_sound else 0, np.int16)


@dataclass
class Stage:
    """One utterance, each unit's text its sound, on a clock that advances by a step."""

    units: list[str]
    pauses: Pauses
    max_lead_s: float = 60.0
    now: float = 0.0
    outputs: list[Output] = field(default_factory=list)
    shortest_lead_s: float = 60.0
    """Of a listener who began with the first sound and plays without a break."""

    def __post_init__(self) -> None:
        self._engine = NullEngine(slots=1, frames_of=lambda request: len(request.text or ""), pcm_of=as_drawn)
        self._scheduler = Scheduler(self._engine.limits)
        self._scheduler.submit(Open(KEY[0], self._engine.voices["low"]), 0.0)
        self._scheduler.submit(Begin(*KEY, Sampling(), self.max_lead_s), 0.0)
        for number, unit in enumerate(self.units):
            self._scheduler.submit(Speak(*KEY, number, unit, 999, self.pauses), 0.0)
        self._scheduler.submit(End(*KEY), 0.0)

    def run(self) -> list[Output]:
        played_until_s: float | None = None
        while self._scheduler.sessions_speaking:
            if (order := self._scheduler.next_prefill(self.now)) is not None:
                self._scheduler.prefilled(self._engine.prefill(order), self.now)
            if (plan := self._scheduler.plan(self.now)) is not None:
                result = self._engine.collect(self._engine.submit(plan))
                # This engine says of each frame which character it is.
                decoded = tuple(replace(one, char=one.frame) for one in result.decoded)
                self._scheduler.apply(replace(result, decoded=decoded), self.now)
            self.now += STEP_S
            for output in self._scheduler.take_outputs():
                self.outputs.append(output)
                if isinstance(output, UnitAudio):
                    played_until_s = (played_until_s or self.now) + len(output.pcm) / SAMPLE_RATE_HZ
            if played_until_s is not None and self._scheduler.sessions_speaking:
                self.shortest_lead_s = min(self.shortest_lead_s, played_until_s - self.now)
        return self.outputs


def audio(outputs: list[Output]) -> list[UnitAudio]:
    return [output for output in outputs if isinstance(output, UnitAudio)]


def test_silence_that_was_not_sent_is_no_lead() -> None:
    """Or the scheduler would take the listener to have half a second more with every unit."""
    stage = Stage(["##########.........."] * 30, Pauses(0, 80), max_lead_s=1.0)
    stage.run()
    assert stage.now > 0.9 * 30 * 10 * FRAME_S, "the sound was paced"
    assert stage.shortest_lead_s > 0.0


def test_the_first_sound_is_one() -> None:
    first = audio(Stage(["....######"], Pauses(0, 80)).run())[0]
    assert first.times is not None
    assert np.argmax(first.pcm != 0) == SAMPLE_RATE_HZ * PRE_ROLL_MS // 1000


@pytest.mark.parametrize("before", [0, 1, 4])
def test_a_character_is_heard_where_its_sound_now_is(before: int) -> None:
    text = "." * before + "####..##"
    pieces = audio(Stage([text, text], Pauses(0, 180)).run())
    for unit in (0, 1):
        pcm = np.concatenate([piece.pcm for piece in pieces if piece.unit == unit])
        heard = {one.char: one.at_s for piece in pieces for one in piece.heard if one.unit == unit}
        assert [heard[char] for char in sorted(heard)] == sorted(heard.values())
        onset_s = np.argmax(pcm != 0) / SAMPLE_RATE_HZ
        for char, at_s in heard.items():
            assert at_s == pytest.approx(max(0.0, onset_s + (char - before) * FRAME_S))
        assert set(heard) == set(range(len(text)))


def test_a_unit_of_silence_ends_like_any_other() -> None:
    outputs = Stage(["####", "." * 40, "####"], Pauses(0, 180)).run()
    assert [output.unit for output in outputs if isinstance(output, UnitDone)] == [0, 1, 2]
    assert 1 not in {output.unit for output in audio(outputs) if np.any(output.pcm)}
