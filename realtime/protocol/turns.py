"""A stream that several speakers share: each turn is an utterance of its own, begun when the one before is spoken."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from realtime.errors import BadRequest, TooMuchText
from realtime.text.speakers import SpeakerSplitter

__all__ = ["Flush", "Said", "Stop", "TurnEnd", "Turns"]


MAX_WAITING_FLUSHES = 500


@dataclass(frozen=True, slots=True)
class Said:
    speaker: int
    text: str


@dataclass(frozen=True, slots=True)
class Flush:
    seq: int


@dataclass(frozen=True, slots=True)
class Stop:
    pass


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """Somebody else speaks next."""


@dataclass(slots=True)
class Turns:
    """What the client sent and the utterance under way has not taken, in order."""

    speakers: int
    """How many have a voice."""
    speaker: int = 0
    """Of the utterance under way."""
    is_ending: bool = False
    """`TurnEnd` was given out."""
    _splitter: SpeakerSplitter = field(default_factory=SpeakerSplitter)
    _waiting: deque[Said | Flush | Stop] = field(default_factory=deque)
    _waiting_flushes: int = 0
    """Of `_waiting`, which may be a million messages long: too many to be counted at each flush."""

    def text(self, text: str) -> None:
        """Raises BadRequest for a speaker without a voice."""
        for speaker, said in self._splitter.feed(text):
            if speaker >= self.speakers:
                raise BadRequest(f"<|speaker:{speaker}|> has no voice: {self.speakers} were named")
            self._waiting.append(Said(speaker, said))

    def flush(self, seq: int) -> None:
        """Raises TooMuchText."""
        if self._waiting_flushes >= MAX_WAITING_FLUSHES:
            raise TooMuchText(f"{MAX_WAITING_FLUSHES} flushes wait for their turn already")
        self._waiting += [Said(*piece) for piece in self._splitter.flush()]
        self._waiting.append(Flush(seq))
        self._waiting_flushes += 1

    def stop(self) -> None:
        self._waiting += [Said(*piece) for piece in self._splitter.flush()]
        self._waiting.append(Stop())

    def take(self) -> list[Said | Flush | Stop | TurnEnd]:
        """What the utterance under way takes now."""
        taken: list[Said | Flush | Stop | TurnEnd] = []
        while self._waiting and not self.is_ending:
            head = self._waiting[0]
            if isinstance(head, Said) and head.speaker != self.speaker:
                if not head.text.strip():
                    self._waiting.popleft()  # blanks between two tags
                    continue
                self.is_ending = True
                taken.append(TurnEnd())
            else:
                self._waiting_flushes -= isinstance(head, Flush)
                taken.append(self._waiting.popleft())
        return taken

    def next(self) -> int:
        """The turn is over: who speaks now."""
        head = self._waiting[0]
        assert isinstance(head, Said), "a turn ends where somebody else has text"
        self.is_ending, self.speaker = False, head.speaker
        return self.speaker

    def drop(self) -> str:
        """Barge-in: nothing of it is spoken any more. Its text."""
        dropped = "".join(item.text for item in self._waiting if isinstance(item, Said))
        dropped += "".join(text for _, text in self._splitter.flush())
        self._waiting.clear()
        self._waiting_flushes = 0
        self.is_ending = False
        return dropped.strip()
