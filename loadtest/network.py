"""A network between server and listener, as a model: what a stream that was recorded here would have been far away.

The server paces by the clock and learns nothing of the network, so a recording can be delayed afterwards.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from loadtest.player import Arrival

__all__ = ["delayed"]


def delayed(arrivals: Sequence[Arrival], mean_s: float, rng: random.Random) -> list[Arrival]:
    """Each message by an exponential of this mean; as over TCP none overtakes another, so what comes behind a late one
    waits with it. A mean of 0 leaves all as it is."""
    late: list[Arrival] = []
    at_s = float("-inf")
    for arrival in arrivals:
        delay_s = rng.expovariate(1 / mean_s) if mean_s else 0.0
        at_s = max(at_s, arrival.at_s + delay_s)
        late.append(Arrival(at_s, arrival.audio_s))
    return late
