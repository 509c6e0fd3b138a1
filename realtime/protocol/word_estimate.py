"""When words are heard, estimated where a reply does not bring their times.

The words of a unit run evenly over its characters, from its first sound on, at the pace of the units before it (70 ms
for each character, unhurried English, as long as there are none). They are told with the unit's first sound, so that
a client has them before it plays them; the next unit begins where its sound does, so errors do not add up.
"""

from __future__ import annotations

from realtime.protocol.replies import Audio, WordTiming

__all__ = ["WordEstimate"]

COMMON_MS_PER_CHAR = 70.0


class WordEstimate:
    """Of one stream; every Audio of it must be shown, in order."""

    def __init__(self) -> None:
        self._stream_ms = 0.0
        self._told_ms = 0.0
        """End of the last word told: times never run backwards."""
        self._done_ms = 0.0
        self._done_chars = 0
        self._unit_chars = 0
        """Of the unit that sounds now."""
        self._unit_begin_ms = 0.0

    def words(self, reply: Audio) -> tuple[WordTiming, ...]:
        """The words whose times became known with this chunk: the reply's own, else estimates."""
        began_ms = self._stream_ms
        self._stream_ms += reply.chunk.duration_ms
        if reply.timings or not reply.text:
            return reply.timings
        self._begin_unit(reply.text, began_ms)
        return self._spread(reply.text, began_ms)

    def _begin_unit(self, text: str, began_ms: float) -> None:
        self._done_chars += self._unit_chars
        if self._unit_chars:
            self._done_ms += began_ms - self._unit_begin_ms
        self._unit_chars, self._unit_begin_ms = len(text), began_ms

    def _spread(self, text: str, began_ms: float) -> tuple[WordTiming, ...]:
        each_ms = self._done_ms / self._done_chars if self._done_chars else COMMON_MS_PER_CHAR
        words: list[WordTiming] = []
        at = 0
        for word in text.split():
            at = text.index(word, at)
            start_ms = max(self._told_ms, began_ms + each_ms * at)
            at += len(word)
            self._told_ms = max(start_ms, began_ms + each_ms * at)
            words.append(WordTiming(word, start_ms, self._told_ms))
        return tuple(words)
