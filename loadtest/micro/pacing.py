"""The scheduler under real-time talkers, on a virtual clock: what the engine's part of TTFA is, how busy the device.

The device runs one step after the other, two queued at the most, and prefills one at a time beside them; a step takes
`--step-ms`, and `--row-us` more for each row decoded and `--codec-us` for each frame vocoded. The defaults are near
what S2-Pro's shape takes on an H200 (LOG.md). The host costs nothing here; what the scheduler costs is timed apart.
What listeners hear is judged behind a network (`--network-ms`: see loadtest.network), by players that begin with the
first packet. With `--eager` nobody waits for company or steps aside: what sharing steps (D20) costs and gains.

    python -m loadtest.micro.pacing -n 64 128 256
    python -m loadtest.micro.pacing -n 64 --max-lead-s 0.2 --network-ms 0 10 30 100
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import random
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from engine.api import Audio, Decoded, Limits, Prefill, PrefillResult, Sampling, SlotId, StepPlan, StepResult, Voice
from loadtest.network import delayed
from loadtest.player import Arrival, Playback, play
from loadtest.report import percentile
from realtime.scheduler import stepping
from realtime.scheduler.job import Begin, End, Open, SessionId, Speak, UnitAudio, UtteranceDone, UtteranceId
from realtime.scheduler.scheduler import Scheduler

RATE_HZ, FRAME_SAMPLES = 44_100, 2_048
CHARS_PER_S = 15
TEXT_CHARS = (60, 140)
PAUSE_S = (0.1, 0.6)
WARM_UP_S = 4.0

T = TypeVar("T")


@dataclass
class Stage:
    args: argparse.Namespace
    talkers: int
    now: float = 0.0
    ttfa_ms: list[float] = field(default_factory=list)
    streams: dict[tuple[int, int], list[Arrival]] = field(default_factory=dict)
    """By turn, the sound that came."""
    steps: int = 0
    rows: int = 0
    busy_s: float = 0.0
    host_s: float = 0.0
    """Of this machine's processor, inside the scheduler."""

    def __post_init__(self) -> None:
        limits = Limits(self.talkers, 1 << 20, RATE_HZ, FRAME_SAMPLES, 10, self.args.chunk_frames, 64, 2)
        self.frame_s = limits.frame_s
        self._scheduler = Scheduler(limits)
        self._rng = random.Random(self.args.seed)
        self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._numbers = itertools.count()
        self._made: dict[SlotId, list[int]] = {}
        """Frames decoded of the slot's unit, and how many it has."""
        self._asked_s: dict[tuple[int, int], float] = {}
        self._played_s: dict[tuple[int, int], float] = {}
        self._turns: dict[int, int] = defaultdict(int)
        self._in_flight, self._free_s = 0, 0.0

    def run(self) -> None:
        voice = Voice("hot", "", np.zeros((10, 0), np.int16))
        for talker in range(self.talkers):
            self._scheduler.submit(Open(SessionId(talker), voice), 0.0)
            self._at(self._rng.uniform(0.0, 6.0), self._turn, talker)
        while self._events and self._events[0][0] <= self.args.seconds:
            self.now, _, act, arguments = heapq.heappop(self._events)
            act(*arguments)
            self._go_on()

    def _at(self, when_s: float, act: Callable[..., None], *arguments: Any) -> None:
        heapq.heappush(self._events, (when_s, next(self._numbers), act, arguments))

    def _timed(self, call: Callable[..., T], *arguments: Any) -> T:
        began = time.thread_time()
        result = call(*arguments)
        self.host_s += time.thread_time() - began
        return result

    # ---- what happens --------------------------------------------------------------------------------

    def _turn(self, talker: int) -> None:
        self._turns[talker] += 1
        key = SessionId(talker), UtteranceId(self._turns[talker])
        self._asked_s[key] = self.now
        text = "x" * self._rng.randint(*TEXT_CHARS)
        for command in (Begin(*key, Sampling(), self.args.max_lead_s), Speak(*key, 0, text, 9_999), End(*key)):
            self._timed(self._scheduler.submit, command, self.now)

    def _prefilled(self, order: Prefill) -> None:
        self._made[order.slot] = [0, round(len(order.text or "") / CHARS_PER_S / self.frame_s)]
        result = PrefillResult(order.slot, order.epoch, 10, 0, self.args.prefill_ms / 1000)
        self._timed(self._scheduler.prefilled, result, self.now)

    def _stepped(self, plan: StepPlan, decoded: tuple[Decoded, ...]) -> None:
        self._in_flight -= 1
        audio = tuple(
            Audio(v.slot, v.epoch, v.first_frame, v.frames, np.full(v.frames * FRAME_SAMPLES, 5_000, np.int16))
            for v in plan.vocode
        )
        self._timed(self._scheduler.apply, StepResult(plan.step, decoded, audio, (), 0.0, 0.0), self.now)
        for output in self._scheduler.take_outputs():
            if isinstance(output, UnitAudio):
                self._heard((output.session, output.utterance), len(output.pcm) / RATE_HZ)
            elif isinstance(output, UtteranceDone):
                played_s = self._played_s[output.session, output.utterance]
                self._at(max(self.now, played_s) + self._rng.uniform(*PAUSE_S), self._turn, output.session)

    def _heard(self, key: tuple[int, int], seconds: float) -> None:
        if key not in self._played_s:
            self._played_s[key] = self.now
            if self.now > WARM_UP_S:
                self.ttfa_ms.append((self.now - self._asked_s[key]) * 1000)
                self.streams[key] = []
        if key in self.streams:
            self.streams[key].append(Arrival(self.now, seconds))
        self._played_s[key] = max(self._played_s[key], self.now) + seconds

    def _go_on(self) -> None:
        """As the decode thread does."""
        if order := self._timed(self._scheduler.next_prefill, self.now):
            self._at(self.now + (self.args.prefill_ms / 1000 if order.text else 0.0), self._prefilled, order)
        while self._in_flight < 2 and (plan := self._timed(self._scheduler.plan, self.now)) is not None:
            self._submit(plan)
        if not self._in_flight and (wake_s := self._scheduler.next_wake()) is not None:
            self._at(max(wake_s, self.now), lambda: None)

    def _submit(self, plan: StepPlan) -> None:
        decoded = []
        for ref in plan.decode:
            made = self._made[ref.slot]
            decoded.append(Decoded(ref.slot, ref.epoch, made[0], ended=made[0] >= made[1]))
            made[0] += 1
        frames = sum(item.frames for item in plan.vocode)
        step_s = (self.args.step_ms + (len(decoded) * self.args.row_us + frames * self.args.codec_us) / 1000) / 1000
        self._free_s = max(self.now, self._free_s) + step_s
        self._in_flight += 1
        self.steps, self.rows, self.busy_s = self.steps + 1, self.rows + len(decoded), self.busy_s + step_s
        self._at(self._free_s, self._stepped, plan, tuple(decoded))


def heard(streams: list[list[Arrival]], network_ms: float, seed: int) -> str:
    """Share of turns without an underrun over 20, 50 and 100 ms, and time stalled over time of sound."""
    rng = random.Random(seed)
    played: list[Playback] = [play(delayed(stream, network_ms / 1000, rng)) for stream in streams]
    within = (sum(p.max_underrun_s * 1000 <= limit for p in played) / len(played) for limit in (20, 50, 100))
    stalled = sum(p.stalled_s for p in played) / sum(p.audio_s for p in played)
    return f"{network_ms:>8.0f}  " + " / ".join(f"{share:6.1%}" for share in within) + f"  {stalled:10.5f}"


def be_eager() -> None:
    """As before D20: a step whenever the device has room for one."""
    stepping.patience_s = lambda lead_s, max_lead_s, frame_s: 0.0
    stepping.refill_s = lambda max_lead_s: max_lead_s - 0.001  # a clock that stands still would never bring it about
    stepping.comfort_s = lambda max_lead_s: float("inf")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", "--talkers", type=int, nargs="+", default=[64])
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--step-ms", type=float, default=3.5)
    parser.add_argument("--row-us", type=float, default=40.0)
    parser.add_argument("--codec-us", type=float, default=50.0)
    parser.add_argument("--chunk-frames", type=int, default=8, help="the codec's widest call")
    parser.add_argument("--prefill-ms", type=float, default=3.7)
    parser.add_argument("--max-lead-s", type=float, default=3.0)
    parser.add_argument("--network-ms", type=float, nargs="+", default=[0.0], help="mean delay of a message")
    parser.add_argument("--eager", action="store_true", help="steps as soon as may be, for whoever has room")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if args.eager:
        be_eager()
    print("talkers  turns  TTFA p50 / p90 / p99 ms  device busy  steps/s  rows  scheduler µs a step")
    for talkers in args.talkers:
        stage = Stage(args, talkers)
        stage.run()
        p50, p90, p99 = (percentile(stage.ttfa_ms, p) for p in (50, 90, 99))
        print(
            f"{talkers:7d} {len(stage.ttfa_ms):6d}  {p50:8.1f} / {p90:4.1f} / {p99:4.1f}     "
            f"{stage.busy_s / args.seconds:11.0%}  {stage.steps / args.seconds:7.0f}  {stage.rows / stage.steps:4.1f}"
            f"  {stage.host_s / stage.steps * 1e6:20.0f}"
        )
        print(" network     C20 /    C50 /   C100  stall ratio")
        for network_ms in args.network_ms:
            print(heard(list(stage.streams.values()), network_ms, args.seed))


if __name__ == "__main__":
    main()
