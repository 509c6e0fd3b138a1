"""Changes a voice store for ever, telling of each change: python -m tests.faults.store_writer FOLDER SEED

Made to be killed (see test_faults_store.py). It prints a line for each change that begins (`id title`, or `id` alone
for a deletion) and an empty one when it counts.
"""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path

from engine.api import Voice
from realtime.voices.folder import Folder
from realtime.voices.library import VoiceLibrary
from realtime.voices.record import VoiceRecord

IDS = tuple(f"voice-{letter}" for letter in "abcde")
CODEBOOKS = 4


def fits(voice: Voice) -> bool:
    return len(voice.codes) == CODEBOOKS


def record_of(id_: str, title: str) -> VoiceRecord:
    """All of it follows from id and title, so that a mixture of two would show."""
    codes = random.Random(f"{id_} {title}").randbytes(2 * CODEBOOKS * 2_500)
    return VoiceRecord(id=id_, title=title, transcript=f"{title} says this.", codes=codes, codebooks=CODEBOOKS)


async def main(folder: Path, seed: int) -> None:
    library, chance = VoiceLibrary(Folder(folder, ".voice"), fits), random.Random(seed)
    while True:
        id_ = chance.choice(IDS)
        if id_ in library.records and chance.random() < 0.3:
            print(id_, flush=True)
            await library.remove(id_)
        else:
            title = f"{seed}-{chance.randrange(1 << 30)}"
            record = record_of(id_, title)
            print(id_, title, flush=True)
            if id_ in library.records:
                await library.change(id_, lambda _, record=record: record)
            else:
                await library.add(record)
        print(flush=True)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
