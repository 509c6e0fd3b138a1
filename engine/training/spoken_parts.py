"""The whole corpus as codes, on a machine that is lent for minutes: `python -m engine.training codes`.

Part by part the teacher speaks, the codec encodes, and the sound is dropped. A part that is there is whole; a command
that dies loses the one at work.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from engine.training.corpus import CorpusLine
from engine.training.spoken_codes import SpokenCodes, part_facts, save_part

__all__ = ["PART_LINES", "speak_in_parts"]

PART_LINES = 8_000
"""Six or seven hours: under a minute of an H200."""


def speak_in_parts(
    corpus: Sequence[CorpusLine],
    wanted: range,
    home: Path,
    *,
    codec: str,
    to_codes: Callable[[Sequence[CorpusLine], int], SpokenCodes],
    leave: Callable[[], None],
    deadline: float,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Make the parts of the wanted lines that `home` lacks, until one would not end before the clock passes `deadline`.

    `to_codes` speaks and encodes lines, with a seed; `codec` names what it encodes with; `leave` brings home what there
    is, after each part, and at once where an earlier command left something. Progress goes to stdout. Raises ValueError
    where `home` has parts of other lines or of another codec.
    """
    parts = [range(at, min(at + PART_LINES, wanted.stop)) for at in range(wanted.start, wanted.stop, PART_LINES)]
    seconds_a_line = _check(home, parts, codec)
    if seconds_a_line:
        _try(leave)
    for number, part in enumerate(parts, 1):
        if (home / _name(part)).exists():
            continue
        began = clock()
        if began + max(seconds_a_line, default=0.0) * len(part) > deadline:
            print(f"{number - 1} of {len(parts)} parts are there; the next would not fit", flush=True)
            return
        codes = to_codes([corpus[line] for line in part], part.start)
        codes = replace(codes, lines=codes.lines + part.start)
        seconds_a_line.append((clock() - began) / len(part))
        unfinished = home.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        save_part(codes, unfinished, {"codec": codec, "seconds_a_line": seconds_a_line[-1]})
        unfinished.rename(home / _name(part))
        _try(leave)
        print(f"{number} of {len(parts)} parts are there", flush=True)


def _name(part: range) -> str:
    return f"part-{part.start:06}-{part.stop:06}"


def _check(home: Path, parts: Sequence[range], codec: str) -> list[float]:
    """Seconds a line of the parts that are there."""
    home.mkdir(parents=True, exist_ok=True)
    names = {_name(part) for part in parts}
    there = {folder.name: part_facts(folder) for folder in home.iterdir()}
    if strangers := sorted(there.keys() - names):
        raise ValueError(f"{home} has {strangers[0]}, which is none of the parts wanted")
    if others := sorted(name for name, facts in there.items() if facts["codec"] != codec):
        raise ValueError(f"{home} has {others[0]}, which another codec made")
    return [facts["seconds_a_line"] for facts in there.values()]


def _try(leave: Callable[[], None]) -> None:
    """A full disk stops nothing: the parts are kept."""
    try:
        leave()
    except OSError as error:
        print(f"nothing was brought home: {error!r}", flush=True)
