"""The encoders' process without the process: in which order it does what comes in, also while it is at work."""

from __future__ import annotations

from collections import deque

import numpy as np

from realtime.audio.chunk import AudioChunk
from realtime.protocol.events import OutputSpec
from realtime.runtime.delivery import Delivery, UnitChunk
from realtime.runtime.mailbox import Mailbox
from realtime.runtime.worker import PIECE_SAMPLES, OpenStream, Worker, WorkItem
from realtime.scheduler.job import SessionId, SpeechTimes, UnitAudio, UtteranceId

OLD, NEW, NEWER = SessionId(1), SessionId(2), SessionId(3)
FRAME = 1_280
LONG = 3 * PIECE_SAMPLES - FRAME


class Bench:
    """Sessions whose encoders pass samples on as bytes. `meanwhile`: what comes in while one piece after the other is
    encoded, whosever it is."""

    def __init__(self) -> None:
        self.meanwhile: deque[list[UnitAudio]] = deque()
        self.pieces: list[int] = []
        self.delivered: list[UnitChunk] = []
        self._inbox: Mailbox[WorkItem | None] = Mailbox(100)
        self._awaited = 0
        for session in (OLD, NEW, NEWER):
            self._inbox.put(OpenStream(session, UtteranceId(1), OutputSpec("pcm"), 24_000))

    def sessions_served(self, *sound: UnitAudio) -> list[SessionId]:
        """In the order in which their messages went out, one of each."""
        self._awaited = len(sound) + sum(map(len, self.meanwhile))
        for one in sound:
            self._inbox.put(one)
        Worker(self._inbox, self._deliver, lambda output, rate_hz: self).run()
        return [delivery.session for delivery in self.delivered]

    def _deliver(self, deliveries: list[Delivery]) -> None:
        self.delivered += [delivery for delivery in deliveries if isinstance(delivery, UnitChunk)]
        if len(self.delivered) == self._awaited:
            self._inbox.put(None)

    def encode(self, pcm: np.ndarray) -> list[AudioChunk]:
        self.pieces.append(len(pcm))
        if self.meanwhile:
            for one in self.meanwhile.popleft():
                self._inbox.put(one)
        return [AudioChunk(float(len(pcm)), pcm.tobytes())]

    drain = close = discard = lambda self: []


def sound(session: SessionId, samples: int, *, is_first: bool = False, utterance: int = 1) -> UnitAudio:
    times = SpeechTimes(0.0, 0.0, 0.0, 0.0, 0.0, 0.0) if is_first else None
    return UnitAudio(session, UtteranceId(utterance), 0, np.arange(samples, dtype=np.int16), times)


def test_a_long_chunk_is_encoded_in_pieces_and_leaves_as_one_message() -> None:
    bench = Bench()
    assert bench.sessions_served(sound(OLD, LONG)) == [OLD]
    assert bench.pieces == [PIECE_SAMPLES, PIECE_SAMPLES, PIECE_SAMPLES - FRAME]
    assert bench.delivered[0].chunk == AudioChunk(float(LONG), sound(OLD, LONG).pcm.tobytes())


def test_a_first_sound_that_comes_meanwhile_is_not_kept_waiting_by_the_rest_of_a_long_chunk() -> None:
    bench = Bench()
    bench.meanwhile.append([sound(NEW, FRAME, is_first=True)])
    assert bench.sessions_served(sound(OLD, LONG)) == [NEW, OLD]
    assert bench.pieces == [PIECE_SAMPLES, FRAME, PIECE_SAMPLES, PIECE_SAMPLES - FRAME]


def test_of_first_sounds_none_waits_for_more_than_a_piece() -> None:
    bench = Bench()
    bench.meanwhile += [[sound(NEW, FRAME, is_first=True)], [sound(NEWER, FRAME, is_first=True)]]
    assert bench.sessions_served(sound(OLD, LONG)) == [NEW, NEWER, OLD]


def test_who_has_had_sound_waits_for_his_turn() -> None:
    bench = Bench()
    bench.meanwhile.append([sound(NEW, FRAME)])
    assert bench.sessions_served(sound(OLD, LONG)) == [OLD, NEW]


def test_a_sessions_own_next_utterance_stays_behind_what_came_before_it() -> None:
    bench = Bench()
    bench.meanwhile.append([sound(OLD, FRAME, is_first=True, utterance=2)])
    bench.sessions_served(sound(OLD, LONG))
    assert [delivery.utterance for delivery in bench.delivered] == [1, 2]
