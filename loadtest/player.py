"""A model of the listener's player: would this stream have stalled?

Pure arithmetic over arrivals, so that one recording can be judged for several start buffers. Definitions
follow "continuity" measures in use for streaming speech: a player starts `buffer_s` after the first packet
arrived and then needs every packet at its media time; when one is late the player stops, and its clock is
pushed on by the delay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Arrival", "Playback", "play", "rfc3550_jitter_s"]


@dataclass(frozen=True, slots=True)
class Arrival:
    """One audio message: when it came (s, any fixed origin) and how much sound it carried."""

    at_s: float
    audio_s: float


@dataclass(frozen=True, slots=True)
class Playback:
    audio_s: float
    stalls: int
    stalled_s: float
    max_underrun_s: float
    min_slack_s: float
    """Smallest time a packet lay ready before it was needed; negative when there was a stall."""

    @property
    def stall_ratio(self) -> float:
        return self.stalled_s / self.audio_s if self.audio_s else 0.0


def play(arrivals: Sequence[Arrival], buffer_s: float = 0.0) -> Playback:
    """Play the stream once. An empty stream has no stalls and infinite slack."""
    if not arrivals:
        return Playback(0.0, 0, 0.0, 0.0, float("inf"))
    clock_s = arrivals[0].at_s + buffer_s
    audio_s = stalled_s = worst_s = 0.0
    stalls = 0
    slack_s = float("inf")
    for arrival in arrivals:
        slack = clock_s - arrival.at_s
        slack_s = min(slack_s, slack)
        if slack < 0:
            stalls += 1
            stalled_s -= slack
            worst_s = max(worst_s, -slack)
            clock_s = arrival.at_s
        clock_s += arrival.audio_s
        audio_s += arrival.audio_s
    return Playback(audio_s, stalls, stalled_s, worst_s, slack_s)


def rfc3550_jitter_s(arrivals: Sequence[Arrival]) -> float:
    """Interarrival jitter as RTP receivers report it (RFC 3550, 6.4.1): the running mean, gain 1/16, of how much the
    transit time of one message differs from the last. Only of use where messages are paced by the playback clock:
    those that build up a lead count as early."""
    jitter = media_s = 0.0
    last: float | None = None
    for arrival in arrivals:
        transit = arrival.at_s - media_s
        if last is not None:
            jitter += (abs(transit - last) - jitter) / 16
        last = transit
        media_s += arrival.audio_s
    return jitter
