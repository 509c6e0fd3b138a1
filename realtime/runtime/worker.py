"""A worker: the encoders of the sessions pinned to it. PCM in, deliveries out, in order. It has a process to itself."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from engine.api import Pcm
from realtime.audio.chunk import AudioChunk, join_chunks
from realtime.audio.encoder import AudioEncoder, make_encoder
from realtime.protocol.events import OutputSpec
from realtime.runtime.delivery import Delivery, StreamClosed, UnitChunk
from realtime.scheduler.job import (
    Failed,
    Heard,
    MarkReached,
    Output,
    SessionId,
    SpeechTimes,
    UnitAudio,
    UnitDone,
    UtteranceDone,
    UtteranceId,
    Warm,
)

__all__ = ["CloseStream", "Forget", "Inbox", "OpenStream", "SkipTo", "WorkItem", "Worker"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OpenStream:
    """From this utterance on the session's audio goes into a new encoder; what is still on its way from earlier
    ones belongs to a stream that failed."""

    session: SessionId
    utterance: UtteranceId
    output: OutputSpec
    rate_hz: int
    """The engine's."""


@dataclass(frozen=True, slots=True)
class SkipTo:
    """Audio of utterances before this one is not wanted any more."""

    session: SessionId
    utterance: UtteranceId


@dataclass(frozen=True, slots=True)
class CloseStream:
    session: SessionId
    utterance: UtteranceId


@dataclass(frozen=True, slots=True)
class Forget:
    """The session is gone."""

    session: SessionId


_Control = OpenStream | SkipTo | CloseStream | Forget
WorkItem = _Control | Output

PIECE_SAMPLES = 4096
"""Of sound encoded at a time, about a millisecond of work: so long a first sound waits at the most. A chunk of eight
frames takes three."""


@dataclass(slots=True)
class _Voice:
    """A session's encoder, and the pieces of the time to first audio that wait for its first chunk."""

    encoder: AudioEncoder
    first_utterance: int
    """Audio of earlier ones is dropped."""
    last_unit: int = 0
    times: SpeechTimes | None = None
    heard: list[Heard] = field(default_factory=list)


class Inbox(Protocol):
    def take_all(self, timeout_s: float | None) -> list[WorkItem | None]:
        """What has come in; with a timeout, waits so long for something (None: without end). None asks the worker to
        end."""
        ...


class Worker:
    def __init__(
        self,
        inbox: Inbox,
        deliver: Callable[[list[Delivery]], None],
        make_encoder: Callable[[OutputSpec, int], AudioEncoder] = make_encoder,
    ) -> None:
        self._inbox, self._deliver, self._make_encoder = inbox, deliver, make_encoder
        self._voices: dict[SessionId, _Voice] = {}
        self._waiting: OrderedDict[SessionId, deque[WorkItem]] = OrderedDict()
        self._urgent: deque[SessionId] = deque()
        """Those whose listeners wait for a first sound that is here."""
        self._serving: SessionId | None = None
        self._gives_way = True
        self._is_over = False

    def run(self) -> None:
        """Until None comes. Within a session in order; of several sessions, first the one whose listener waits for the
        first sound. What is made goes out at once: encoding one session's long chunk must not delay another's."""
        while self._take_in(timeout_s=0.0 if self._waiting else None):
            if self._waiting:
                self._serve(self._urgent.popleft() if self._urgent else next(iter(self._waiting)))

    def _take_in(self, timeout_s: float | None) -> bool:
        """False from the time that None came."""
        for item in self._inbox.take_all(timeout_s):
            if item is None:
                self._is_over = True
                continue
            self._waiting.setdefault(item.session, deque()).append(item)
            if isinstance(item, UnitAudio) and item.times is not None:
                self._urgent.append(item.session)
        return not self._is_over

    def _serve(self, session: SessionId) -> None:
        self._serving = session
        if deliveries := [made for one in self._waiting.pop(session, ()) for made in self._do(one)]:
            self._deliver(deliveries)

    def _let_first_sounds_by(self) -> None:
        """Between two pieces of a chunk. Other sessions only: the one under way keeps its order."""
        if not self._gives_way:
            return
        under_way, self._gives_way = self._serving, False
        self._take_in(timeout_s=0.0)
        for session in [session for session in self._urgent if session != under_way]:
            self._urgent.remove(session)
            self._serve(session)
        self._serving, self._gives_way = under_way, True

    def _do(self, item: WorkItem) -> list[Delivery]:
        try:
            if isinstance(item, OpenStream | SkipTo | CloseStream | Forget):
                return self._control(item)
            return self._encode(item)
        except Exception:  # it must end this stream, not the worker, which has others
            log.exception("the encoder of session %s failed", item.session)
            self._voices.pop(item.session, None)
            utterance = None if isinstance(item, Forget | Warm) else item.utterance
            return [Failed(item.session, utterance, "internal", "the sound could not be encoded")]

    def _control(self, item: _Control) -> list[Delivery]:
        if isinstance(item, OpenStream):
            try:
                self._voices[item.session] = _Voice(self._make_encoder(item.output, item.rate_hz), item.utterance)
            except Exception as error:  # a missing libopus must end this stream, not the worker
                log.warning("no encoder for session %s: %s", item.session, error)
                return [Failed(item.session, None, "bad_request", str(error))]
            return []
        if isinstance(item, Forget):
            self._voices.pop(item.session, None)
            return []
        voice = self._voices.get(item.session)
        if isinstance(item, SkipTo):
            if voice is not None:
                voice.first_utterance = item.utterance
                voice.encoder.discard()
                voice.heard.clear()
            return []
        chunks = voice.encoder.close() if voice is not None else []
        self._voices.pop(item.session, None)
        return [StreamClosed(item.session, item.utterance, chunks[0] if chunks else None)]

    def _encode(self, output: Output) -> list[Delivery]:
        if isinstance(output, Warm | Failed):
            return [output]
        voice = self._voices.get(output.session)
        if voice is None or output.utterance < voice.first_utterance:
            return []
        if isinstance(output, UnitAudio):
            began = time.perf_counter()
            voice.times, voice.last_unit = output.times or voice.times, output.unit
            voice.heard += output.heard
            chunks = self._encode_in_pieces(voice.encoder, output.pcm)
            return self._chunks(voice, output, chunks, time.perf_counter() - began)
        # Marks must be true: what the encoder still holds belongs before them. After UtteranceDone the container is
        # closed, which drains it too, and can trim the padding.
        is_boundary = isinstance(output, MarkReached) or (isinstance(output, UnitDone) and output.drained)
        held = self._chunks(voice, output, voice.encoder.drain(), 0.0) if is_boundary else []
        return [*held, output]

    def _encode_in_pieces(self, encoder: AudioEncoder, pcm: Pcm) -> list[AudioChunk]:
        """Still one chunk: a message costs the event loop time, however long it is."""
        chunks = encoder.encode(pcm[:PIECE_SAMPLES])
        for start in range(PIECE_SAMPLES, len(pcm), PIECE_SAMPLES):
            self._let_first_sounds_by()
            chunks += encoder.encode(pcm[start : start + PIECE_SAMPLES])
        return join_chunks(chunks)

    def _chunks(
        self,
        voice: _Voice,
        output: UnitAudio | UnitDone | MarkReached | UtteranceDone,
        chunks: list[AudioChunk],
        encode_s: float,
    ) -> list[Delivery]:
        made: list[Delivery] = []
        for chunk in chunks:
            heard, voice.heard = tuple(voice.heard), []
            made.append(
                UnitChunk(output.session, output.utterance, voice.last_unit, chunk, voice.times, encode_s, heard)
            )
            voice.times = None
        return made
