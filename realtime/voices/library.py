"""The voices that users uploaded: in memory for speaking, on disk for the next start."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

import numpy as np

from engine.api import Voice
from realtime.errors import BadReference, NameTaken, UnknownVoice
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
    """Lives on the event loop; files are written in a thread, one at a time. A change counts once it is on disk.

    Requests take long to read, and clips to encode: what was looked up before may be gone by the time of the change, or
    be somebody else's. So changes look for themselves, when it is their turn.
    """

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

    async def add(self, record: VoiceRecord) -> None:
        """A new voice. Raises NameTaken, BadReference where no more fit, and OSError."""
        async with self._writing:
            self._check_free(record.id)
            if len(self._records) >= MAX_VOICES:
                raise BadReference(f"{MAX_VOICES} voices are stored, which is the limit; delete one first")
            await self._write(record)

    async def change(self, id_: str, changed: Callable[[VoiceRecord], VoiceRecord]) -> VoiceRecord:
        """`changed` gets the voice as it is by then, and gives its new form, maybe under another id. Raises
        UnknownVoice, NameTaken, OSError, and what `changed` raises; then nothing has changed."""
        async with self._writing:
            record = changed(self._record(id_))
            if record.id != id_:
                self._check_free(record.id)
            await self._write(record)
            if record.id != id_:  # the new one first: a crash in between leaves two, never none
                await self._erase(id_)
            return record

    async def remove(self, id_: str, may: Callable[[VoiceRecord], bool] = lambda _: True) -> None:
        """Delete it if it `may` be. Streams that speak with it go on. Raises UnknownVoice, also where it may not, and
        OSError."""
        async with self._writing:
            if not may(self._record(id_)):
                raise _unknown(id_)
            await self._erase(id_)

    def _record(self, id_: str) -> VoiceRecord:
        if (record := self._records.get(id_)) is None:
            raise _unknown(id_)
        return record

    def _check_free(self, id_: str) -> None:
        if id_ in self._records:
            raise NameTaken(f"there is a voice {id_!r} already")

    async def _write(self, record: VoiceRecord) -> None:
        await asyncio.to_thread(self._folder.write, record.id, encode_record(record))
        self._keep(record)

    async def _erase(self, id_: str) -> None:
        await asyncio.to_thread(self._folder.remove, id_)
        del self._records[id_], self._voices[id_]

    def _keep(self, record: VoiceRecord) -> None:
        self._records[record.id] = record
        self._voices[record.id] = voice_of(record)


def _unknown(id_: str) -> UnknownVoice:
    return UnknownVoice(f"there is no uploaded voice {id_[:80]!r}")
