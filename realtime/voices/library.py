"""The voices that users uploaded: in memory for speaking, on disk for the next start."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

import numpy as np

from engine.api import Voice
from realtime.errors import BadReference
from realtime.voices.folder import Folder
from realtime.voices.record import BadRecord, VoiceRecord, decode_record, encode_record

__all__ = ["MAX_VOICES", "VoiceLibrary", "voice_of"]

log = logging.getLogger(__name__)

MAX_VOICES = 1_000


def voice_of(record: VoiceRecord) -> Voice:
    """As the engine wants it; the codes are read-only."""
    codes = np.frombuffer(record.codes, "<i2").reshape(record.codebooks, -1)
    language = record.languages[0] if record.languages else ""
    return Voice(record.id, record.transcript, codes, record.description or record.title, language)


class _VoicesFor(Mapping[str, Voice]):
    """A live view of what one owner may speak with."""

    def __init__(self, records: Mapping[str, VoiceRecord], voices: Mapping[str, Voice], owner: str) -> None:
        self._records, self._voices, self._owner = records, voices, owner

    def __getitem__(self, id_: str) -> Voice:
        record = self._records.get(id_)
        if record is None or (record.visibility == "private" and record.owner not in ("", self._owner)):
            raise KeyError(id_)
        return self._voices[id_]

    def __iter__(self) -> Iterator[str]:
        """Those that are his or shown to all: an unlisted one of somebody else is for who knows its id."""
        return (r.id for r in self._records.values() if r.owner in ("", self._owner) or r.visibility == "public")

    def __len__(self) -> int:
        return sum(1 for _ in self)


class VoiceLibrary:
    """Lives on the event loop; files are written in a thread, one at a time. A change counts once it is on disk."""

    def __init__(self, folder: Folder, fits: Callable[[Voice], bool]) -> None:
        """Reads what is there; a file that cannot be used (`fits`: by this model) is told of in the log and left
        alone."""
        self._folder = folder
        self._records: dict[str, VoiceRecord] = {}
        self._voices: dict[str, Voice] = {}
        self._writing = asyncio.Lock()
        for name, data in folder.read_all():
            try:
                record = decode_record(data)
                if record.id != name:
                    raise BadRecord(f"it calls itself {record.id!r}")
                if not fits(voice_of(record)):
                    raise BadRecord("it was made for another model")
            except BadRecord as error:
                log.warning("voice %s in %s is not used: %s", name, folder.path, error)
                continue
            self._keep(record)

    @property
    def voices(self) -> Mapping[str, Voice]:
        """By id; a live view."""
        return MappingProxyType(self._voices)

    @property
    def records(self) -> Mapping[str, VoiceRecord]:
        return MappingProxyType(self._records)

    def voices_for(self, owner: str) -> Mapping[str, Voice]:
        """By id, those that this owner may speak with; iterating shows those that are listed. A live view."""
        return _VoicesFor(self._records, self._voices, owner)

    async def put(self, record: VoiceRecord) -> None:
        """A new voice, or a new form of one. Raises BadReference where no more fit, and OSError."""
        async with self._writing:
            if record.id not in self._records and len(self._records) >= MAX_VOICES:
                raise BadReference(f"{MAX_VOICES} voices are stored, which is the limit; delete one first")
            await asyncio.to_thread(self._folder.write, record.id, encode_record(record))
            self._keep(record)

    async def remove(self, id_: str) -> bool:
        """Whether it was there. Streams that speak with it go on. Raises OSError."""
        async with self._writing:
            if id_ not in self._records:
                return False
            await asyncio.to_thread(self._folder.remove, id_)
            del self._records[id_], self._voices[id_]
            return True

    def _keep(self, record: VoiceRecord) -> None:
        self._records[record.id] = record
        self._voices[record.id] = voice_of(record)
