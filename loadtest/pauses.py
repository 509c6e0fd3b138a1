"""Silence as a listener hears it: before the first sound of a turn, behind its last, and where units join.

    python -m loadtest.pauses --url ws://127.0.0.1:8000/v1/tts/live --seeds 3

Silent is a window of 5 ms more than 40 dB under the loudest of its turn (as in `python -m engine.training evaluate`).
The fading of a sound counts as silence from there on, so that these figures are some 50 ms above the server's limits.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import numpy.typing as npt
from kingfisher_client import AsyncClient
from kingfisher_client.events import Audio, Flushed

from loadtest.report import percentile

RATE_HZ = 24_000
WINDOW = RATE_HZ // 200
SILENCE_DB = -40.0
AROUND_MS = 100
"""A unit begins in the server's books where its first packet does: up to so far from where the silence lies."""


@dataclass(frozen=True)
class Text:
    parts: tuple[str, ...]
    """The client flushes behind each but the last."""
    joins: tuple[str, ...]
    """What stands between one unit and the next."""


TEXTS = (
    Text(
        (
            "I can move your appointment to the afternoon, if that suits you better than the morning. "
            "The doctor is free at three on Monday. Would you like to speak with the manager?\n\n"
            "Please wait a moment while I look that up.",
        ),
        ("clause", "sentence", "sentence", "paragraph"),
    ),
    Text(
        (
            "Thank you for waiting so long, I have found it. She paid for the tickets with her card!\n\n"
            "I am sorry, that line is busy right now. Is there anything else?",
        ),
        ("clause", "sentence", "paragraph", "sentence"),
    ),
    Text(("Please wait a moment while I", " look that up for you."), ("inside a clause",)),
    Text(("Can you tell me the name", " on the account?"), ("inside a clause",)),
)


@dataclass
class Spoken:
    pcm: npt.NDArray[np.float32]
    """[N] between -1 and 1, at RATE_HZ."""
    joins: list[int]
    """Index of the first sample of each unit but the first."""


async def speak(url: str, text: Text, voice: str, seed: int) -> Spoken:
    begins_s: dict[int, float] = {}
    data = b""
    request = {"format": "pcm", "sample_rate": RATE_HZ, "voice": voice, "seed": seed, "max_lead_s": 30}
    async with AsyncClient(url + "/with-timestamp") as client, client.stream(**request) as stream:
        for number, part in enumerate(text.parts, 1):
            await stream.send_text(part)
            await (stream.stop() if number == len(text.parts) else stream.flush())
            async for event in stream:
                if isinstance(event, Audio):
                    begins_s.setdefault(event.chunk_seq, event.chunk_audio_offset_sec)
                    data += event.data
                elif isinstance(event, Flushed):
                    break
    joins = [round(begins_s[unit] * RATE_HZ) for unit in sorted(begins_s)][1:]
    return Spoken(np.frombuffer(data, np.int16).astype(np.float32) / 32_768, joins)


def silences(pcm: npt.NDArray[np.float32]) -> list[tuple[int, int]]:
    """(first sample, sample behind the last) of each silence in float32 [N]."""
    windows = pcm[: len(pcm) // WINDOW * WINDOW].reshape(-1, WINDOW)
    level = np.sqrt(np.square(windows).mean(axis=1))
    found, at = [], 0
    for is_silent, run in groupby(level < level.max() * 10 ** (SILENCE_DB / 20)):
        end = at + len(list(run)) * WINDOW
        if is_silent:
            found.append((at, end))
        at = end
    return found


def measure(spoken: Spoken) -> tuple[float, list[float], float]:
    """Milliseconds of silence: at the beginning, at each join (the longest nearby), at the end."""
    around = AROUND_MS * RATE_HZ // 1000
    found, whole = silences(spoken.pcm), len(spoken.pcm) // WINDOW * WINDOW

    def longest(silent: Iterable[tuple[int, int]]) -> float:
        return max(((end - first) * 1000 / RATE_HZ for first, end in silent), default=0.0)

    joins = [
        longest((first, end) for first, end in found if first - around <= join <= end + around) for join in spoken.joins
    ]
    return longest(s for s in found if s[0] == 0), joins, longest(s for s in found if s[1] == whole)


async def run(options: argparse.Namespace) -> None:
    found: dict[str, list[float]] = defaultdict(list)
    seconds = 0.0
    for voice in options.voices:
        for seed in range(1, options.seeds + 1):
            for text in TEXTS:
                spoken = await speak(options.url, text, voice, seed)
                begin_ms, joins_ms, end_ms = measure(spoken)
                found["beginning"].append(begin_ms)
                for kind, join_ms in zip(text.joins, joins_ms, strict=True):
                    found[kind].append(join_ms)
                found["end"].append(end_ms)
                seconds += len(spoken.pcm) / RATE_HZ
    rows = {kind: [len(ms), *(percentile(ms, q) for q in (50, 95)), max(ms)] for kind, ms in found.items()}
    print(f"{'silence, ms':16} {'n':>4} {'p50':>5} {'p95':>5} {'max':>5}")
    for kind, row in rows.items():
        print(f"{kind:16} {row[0]:4.0f} {row[1]:5.0f} {row[2]:5.0f} {row[3]:5.0f}")
    print(json.dumps({"seconds": round(seconds, 2), "silence_ms_n_p50_p95_max": rows}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="ws://127.0.0.1:8000/v1/tts/live")
    parser.add_argument("--voices", nargs="+", default=["willow", "hazel", "rowan"])
    parser.add_argument("--seeds", type=int, default=3)
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
