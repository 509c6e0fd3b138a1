"""One voice speaking one stream at a time, as a Sans-IO machine: what every protocol of the server is built on.

Results are pulled: `replies()` is what the client should learn, in order, and `events()` is what the shell must do
(see realtime.protocol.events). After each input the dialect or the shell pulls both. Time is an argument (seconds, any
origin). It knows no wire format, no socket, no thread, no engine, and no audio format beyond passing chunks on.

Laws: whatever comes in, each accepted `start` ends in exactly one `Finish`; every accepted character of text is in
exactly one unit, in order; after `Cancelled` nothing of that utterance comes out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial

from realtime.audio.chunk import AudioChunk
from realtime.errors import BadOrder, BadRequest, StreamFault, TooMuchText, UnknownVoice
from realtime.protocol.events import (
    Begin,
    Cancel,
    CloseStream,
    End,
    Finished,
    Reference,
    SessionEvent,
    UseVoice,
)
from realtime.protocol.replies import Cancelled, Finish, Flushed, Reply, Warm, Warning
from realtime.protocol.request import StreamRequest
from realtime.protocol.turns import Flush, Said, Stop, TurnEnd, Turns
from realtime.protocol.utterance import Stream, Utterance
from realtime.text.languages import language_of
from realtime.text.normalizer import normalize
from realtime.text.segmenter import Segmenter

__all__ = ["Context"]

_END_OF_TURN = 0
"""The mark behind a turn; clients' flushes count from 1."""


class Context:
    def __init__(
        self,
        *,
        max_stream_chars: int,
        voices: Collection[str],
        voice: str,
        new_seed: Callable[[], int],
        language_of_voice: Callable[[str], str] = lambda _: "",
        romanizes: bool = False,
    ) -> None:
        """`voice` speaks unless a stream names another; `voices` are all there are, and may change.
        `language_of_voice`: a tag, empty where that is not known. `romanizes`: the model reads Latin letters alone."""
        self._max_stream_chars, self._voices, self._voice = max_stream_chars, voices, voice
        self._new_seed, self._language_of_voice = new_seed, language_of_voice
        self._romanizes = romanizes
        self._voice_language = ""
        """Of the voice that speaks."""
        self._replies: list[Reply] = []
        self._events: list[SessionEvent] = []
        self._stream: Stream | None = None
        self._utterance: Utterance | None = None
        self._utterances = 0
        self._is_held = False
        self._has_failed = False
        """The last stream ended in an error: what the client sent before it knew is let pass."""

    # ---- outputs -----------------------------------------------------------------------------------

    def replies(self) -> list[Reply]:
        replies, self._replies = self._replies, []
        return replies

    def events(self) -> list[SessionEvent]:
        events, self._events = self._events, []
        return events

    @property
    def is_open(self) -> bool:
        """Whether a stream is under way."""
        return self._stream is not None

    @property
    def takes_text(self) -> bool:
        """Whether a stream is under way that was not stopped."""
        return self._stream is not None and not self._stream.is_stopping

    @property
    def seed(self) -> int | None:
        """Of the stream under way."""
        return None if self._stream is None else self._stream.seed

    # ---- the client's side -------------------------------------------------------------------------

    def warm(self) -> None:
        """Ask for the voice's prefill before there is a stream; answered by `Warm`."""
        self._events.append(UseVoice(self._voice, None))

    def start(self, request: StreamRequest, now: float) -> None:
        """Raises BadOrder inside a stream. Anything wrong with the stream itself ends it in a Finish."""
        self._check_may_start()
        self._has_failed = False
        try:
            voice = self._voice_for(request)
        except StreamFault as fault:
            self.refuse(fault)
            return
        seed = self._new_seed() if request.seed is None else request.seed
        self._stream = Stream(now, request, seed, turns=Turns(len(request.speakers)) if request.speakers else None)
        self._use(voice)
        self._begin(self._stream, is_new=True)
        if request.text:
            self.text(request.text, now)

    def refuse(self, fault: StreamFault) -> None:
        """Answer a start that asked for something impossible. Raises BadOrder inside a stream."""
        self._check_may_start()
        self._replies.append(Finish(fault.code, str(fault), 0.0, 0, 0, 0.0, None))
        self._over(None, has_failed=True)

    def text(self, text: str, now: float) -> None:
        """Raises BadOrder outside a stream and after `stop`."""
        if (found := self._open("text")) is None:
            return
        stream, utterance = found
        stream.took_text(text, now)
        if stream.chars > self._max_stream_chars:
            self.fail(TooMuchText(f"the stream's text has over {self._max_stream_chars} characters"), now)
            return
        if stream.turns is None:
            self._events += utterance.feed(text)
            return
        try:
            stream.turns.text(text)
        except BadRequest as fault:
            self.fail(fault, now)
        else:
            self._take_turns(stream.turns, utterance)

    def flush(self, now: float) -> None:
        """Speak what was held back; answered by Flushed. Raises BadOrder outside a stream and after `stop`."""
        if (found := self._open("flush")) is None:
            return
        stream, utterance = found
        stream.flushes += 1
        try:
            if stream.turns is None:
                self._events += utterance.flush(stream.flushes)
            else:
                stream.turns.flush(stream.flushes)
                self._take_turns(stream.turns, utterance)
        except TooMuchText as fault:
            self.fail(fault, now)

    def stop(self) -> None:
        """The text is complete. Raises BadOrder outside a stream and after `stop`."""
        if (found := self._open("stop")) is not None:
            stream, utterance = found
            stream.is_stopping = True
            if stream.turns is None:
                self._events += utterance.end()
            else:
                stream.turns.stop()
                self._take_turns(stream.turns, utterance)

    def cancel(self, played_ms: float | None) -> None:
        """Barge-in, answered by Cancelled: what was not heard is dropped; the stream goes on with new text.
        `played_ms`: audio of this utterance that the listener heard, if the client knows."""
        stream, utterance = self._stream, self._utterance
        if stream is None or utterance is None:
            # It crossed with the end of the stream: there is nothing left to cancel.
            self._replies.append(Cancelled(self._utterances))
            return
        spoken, remaining = utterance.split_at(played_ms)
        if stream.turns is not None:
            remaining = f"{remaining} {stream.turns.drop()}".strip()
        self._replies.append(Cancelled(utterance.number, spoken, remaining, utterance.audio_ms))
        if stream.is_closing:
            # Nothing is left to speak. The container's end, still to come, would be heard: it is dropped.
            self._next_utterance(stream)
            return
        self._events.append(Cancel(utterance.number))
        self._begin(stream, is_new=False)
        if stream.is_stopping:
            self._events.append(End(self._utterances))

    def hold(self, is_held: bool) -> None:
        """Whether the client takes no more for now: units handed over are finished, further ones wait."""
        if is_held == self._is_held:
            return
        self._is_held = is_held
        if self._utterance is not None:
            self._utterance.is_held = is_held
            self._events += self._utterance.advance()

    def tick(self) -> None:
        """Called about once a second: looks at text that was left for later."""
        if self._utterance is not None:
            self._events += self._utterance.advance()

    def fail(self, fault: StreamFault, now: float) -> None:
        """The stream under way, if any, ends in this error."""
        if self._stream is not None and self._utterance is not None:
            self._events.append(Cancel(self._utterance.number))
            self._finish(self._stream, now, fault.code, str(fault))

    def abandon(self) -> None:
        """Nobody listens any more: what is under way is dropped without a word."""
        if self._stream is not None and self._utterance is not None:
            self._events.append(Cancel(self._utterance.number))
            self._over(self._stream.ttfa_ms, has_failed=True)

    # ---- the engine's side, in stream order ----------------------------------------------------------

    def warmed(self, voice: str) -> None:
        """The context's slot holds this voice's prefix."""
        self._replies.append(Warm(voice))

    def audio(self, utterance: int, unit: int, chunk: AudioChunk, ttfa_ms: dict[str, float] | None, now: float) -> None:
        """Encoded audio of a unit. `ttfa_ms` comes with the first of an utterance: its parts inside the engine."""
        current, stream = self._current(utterance)
        if current is None or stream is None:
            return
        if ttfa_ms is not None:
            stream.took_first_audio(ttfa_ms, now)
        self._take_audio(stream, current, chunk, unit, now)

    def heard(self, utterance: int, positions: Sequence[tuple[int, float, int]]) -> None:
        """(unit, seconds of its sound at the model's own speed, character of its spoken text), before that audio."""
        current, stream = self._current(utterance)
        if current is not None and stream is not None:
            for unit, at_s, char in positions:
                current.units[unit].words.hear(at_s * 1000 / stream.request.output.speed, char)

    def unit_done(self, utterance: int, unit: int, *, is_cut: bool) -> None:
        """The unit's audio is complete; `is_cut`: it hit its frame limit."""
        current, stream = self._current(utterance)
        if current is None or stream is None:
            return
        if (timings := current.rest_of(unit, stream.audio_ms)) is not None:
            self._replies.append(timings)
        if is_cut:
            self._replies.append(Warning("unit_too_long", f"speech was cut: {current.units[unit].text[:80]!r}"))
        self._events += current.unit_done(unit)

    def mark_reached(self, utterance: int, seq: int) -> None:
        """All audio before this flush was sent."""
        current, _ = self._current(utterance)
        if current is not None:
            current.flush_answered()
            if seq != _END_OF_TURN:
                self._replies.append(Flushed(seq, current.audio_ms))

    def utterance_done(self, utterance: int) -> None:
        """The utterance was ended by `stop` and all its audio was sent."""
        current, stream = self._current(utterance)
        if current is None or stream is None:
            return
        if stream.turns is not None and stream.turns.is_ending:
            self._next_turn(stream, stream.turns)
        else:
            stream.is_closing = True
            self._events.append(CloseStream(current.number))

    def stream_closed(self, utterance: int, chunk: AudioChunk | None, now: float) -> None:
        """Answers CloseStream: the container is complete; `chunk` holds its last bytes, and maybe sound."""
        current, stream = self._utterance, self._stream
        if current is None or stream is None or not stream.is_closing:
            return
        if chunk is not None and utterance == current.number:
            self._take_audio(stream, current, chunk, None, now)
        self._finish(stream, now)

    def failed(self, utterance: int | None, fault: StreamFault, now: float) -> None:
        """The engine's side cannot go on with this utterance (None: with whatever is under way)."""
        if utterance is None or self._current(utterance)[0] is not None:
            self.fail(fault, now)

    # ---- a stream's life -----------------------------------------------------------------------------

    def _check_may_start(self) -> None:
        if self._stream is not None:
            raise BadOrder("start inside a stream; wait for its finish or send cancel")

    def _voice_for(self, request: StreamRequest) -> UseVoice:
        """The voice of a stream. Raises UnknownVoice; an unknown reference_id only warns, as clients send ids of
        the hosted catalogue by default."""
        if request.reference is not None:
            return UseVoice(None, request.reference)
        if request.voice is not None:
            if request.voice not in self._voices:
                known = ", ".join(sorted(self._voices)[:20])
                raise UnknownVoice(f"there is no voice {request.voice[:80]!r}; known voices: {known}")
            return UseVoice(request.voice, None)
        return self._voice_of(request.speakers[0] if request.speakers else request.reference_id)

    def _voice_of(self, speaker: str | Reference | None) -> UseVoice:
        if isinstance(speaker, Reference):
            return UseVoice(None, speaker)
        if speaker is None:
            return UseVoice(self._voice, None)
        if speaker in self._voices:
            return UseVoice(speaker, None)
        message = f"there is no voice {speaker[:80]!r}; {self._voice!r} speaks instead"
        self._replies.append(Warning("unknown_voice", message))
        return UseVoice(self._voice, None)

    # ---- turns of several speakers -------------------------------------------------------------------

    def _take_turns(self, turns: Turns, utterance: Utterance) -> None:
        """The utterance under way takes what is its own. Raises TooMuchText."""
        for item in turns.take():
            match item:
                case Said(text=text):
                    self._events += utterance.feed(text)
                case Flush(seq=seq):
                    self._events += utterance.flush(seq)
                case TurnEnd():
                    # The mark lets out what the encoder holds: the next turn's beginning would discard it.
                    self._events += utterance.flush(_END_OF_TURN) + utterance.end()
                case Stop():
                    self._events += utterance.end()

    def _next_turn(self, stream: Stream, turns: Turns) -> None:
        self._use(self._voice_of(stream.request.speakers[turns.next()]))
        self._begin(stream, is_new=False)
        assert self._utterance is not None
        self._take_turns(turns, self._utterance)

    def _begin(self, stream: Stream, *, is_new: bool) -> None:
        request, utterance = stream.request, self._next_utterance(stream)
        self._events.append(
            Begin(
                utterance.number,
                request.output,
                request.temperature,
                request.top_p,
                stream.seed,
                request.max_lead_s,
                new_stream=is_new,
            )
        )

    def _next_utterance(self, stream: Stream) -> Utterance:
        self._utterances += 1
        request = stream.request
        language = language_of(request.language or self._voice_language)
        segmenter = Segmenter(request.chunk_chars, request.first_clause_chars, language.abbreviations)
        read = partial(normalize, language=language, romanizes=self._romanizes) if request.normalize else str
        self._utterance = Utterance(self._utterances, segmenter, read, is_held=self._is_held)
        return self._utterance

    def _use(self, voice: UseVoice) -> None:
        self._voice_language = "" if voice.name is None else self._language_of_voice(voice.name)
        self._events.append(voice)

    def _open(self, what: str) -> tuple[Stream, Utterance] | None:
        """The stream that takes text; None if it just failed, as the client could not know. Raises BadOrder."""
        if self._stream is None or self._utterance is None:
            if self._has_failed:
                return None
            raise BadOrder(f"{what} without a stream; send start first")
        if self._stream.is_stopping:
            raise BadOrder(f"{what} after stop; wait for finish, then send start")
        return self._stream, self._utterance

    def _current(self, utterance: int) -> tuple[Utterance | None, Stream | None]:
        """The open utterance if it is this one; what comes late for another one is dropped here."""
        if self._utterance is None or self._utterance.number != utterance:
            return None, None
        return self._utterance, self._stream

    def _take_audio(self, stream: Stream, current: Utterance, chunk: AudioChunk, unit: int | None, now: float) -> None:
        self._replies.append(current.take_audio(chunk, unit, stream.audio_ms, stream.since_ms(now)))
        stream.audio_ms += chunk.duration_ms

    def _finish(self, stream: Stream, now: float, code: str | None = None, message: str = "") -> None:
        """`code`: what went wrong; None: nothing."""
        self._replies.append(
            Finish(
                code,
                message,
                stream.since_ms(now),
                stream.chars,
                stream.utf8_bytes,
                stream.audio_ms,
                stream.ttfa_ms,
            )
        )
        self._over(stream.ttfa_ms, has_failed=code is not None)

    def _over(self, ttfa_ms: dict[str, float] | None, *, has_failed: bool) -> None:
        """A start was answered."""
        self._events.append(Finished("error" if has_failed else "stop", None if ttfa_ms is None else ttfa_ms["total"]))
        self._has_failed = has_failed
        self._stream = self._utterance = None
