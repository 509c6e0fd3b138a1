"""Clips that were encoded once: the voices lately used in memory, codes by the hash of their audio on disk."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable

import numpy as np
import numpy.typing as npt

from engine.api import Voice
from realtime.voices.folder import Folder

__all__ = ["ClipCache"]

log = logging.getLogger(__name__)

MEMORY_ENTRIES = 64
DISK_ENTRIES = 1_000
"""Of about ten kilobytes each."""

Codes = npt.NDArray[np.int16]


class ClipCache:
    """Lives on the event loop. Never fails for the disk's sake: it is a cache."""

    def __init__(self, folder: Folder, codebooks: int, model: str, fits: Callable[[Voice], bool]) -> None:
        """`model`: whatever tells one codec from another; codes of one are noise to the next, and where they do not
        even `fits`, they are encoded anew."""
        self._folder, self._codebooks, self._model, self._fits = folder, codebooks, model, fits
        self._recent: OrderedDict[str, Voice] = OrderedDict()
        self._encoding = asyncio.Lock()

    async def voice(self, audio: bytes, text: str, encode: Callable[[str], Awaitable[Codes]]) -> Voice:
        """The voice of a clip that says `text`. `encode` is called with a name for the clip if its codes are not
        known; sessions that bring the same clip at once wait for the first. Raises what `encode` raises."""
        name, key = await asyncio.to_thread(self._names, audio, text)
        if key not in self._recent and (codes := await asyncio.to_thread(self._read, name)) is not None:
            self._keep(key, text, codes)  # which waits for nobody's clip
        if key not in self._recent:
            # One at a time, as they are encoded anyway.
            async with self._encoding:
                if key not in self._recent:
                    self._keep(key, text, await self._codes(name, encode))
        self._recent.move_to_end(key)
        return self._recent[key]

    def _keep(self, key: str, text: str, codes: Codes) -> None:
        self._recent.setdefault(key, Voice(key, text, codes))
        if len(self._recent) > MEMORY_ENTRIES:
            self._recent.popitem(last=False)

    async def _codes(self, name: str, encode: Callable[[str], Awaitable[Codes]]) -> Codes:
        """Somebody may have brought the sound with another text meanwhile."""
        codes = await asyncio.to_thread(self._read, name)
        if codes is None:
            codes = await encode(name)
            await asyncio.to_thread(self._write, name, codes)
        return codes

    def _names(self, audio: bytes, text: str) -> tuple[str, str]:
        """Of the codes, which depend on the sound alone, and of the voice."""
        digest = hashlib.sha256(self._model.encode() + b"\0" + audio)
        name = f"clip-{digest.hexdigest()[:32]}"
        digest.update(b"\0" + text.encode("utf-8", "replace"))
        return name, f"clip-{digest.hexdigest()[:32]}"

    def _read(self, name: str) -> Codes | None:
        try:
            data = self._folder.read(name)
        except OSError as error:
            log.warning("the clip cache in %s cannot be read: %s", self._folder.path, error)
            return None
        # The digest in front tells of a damaged file, which is then as good as none.
        if data is None or hashlib.sha256(data[32:]).digest() != data[:32] or len(data[32:]) % (2 * self._codebooks):
            return None
        codes = np.frombuffer(data[32:], "<i2").reshape(self._codebooks, -1)
        return codes if self._fits(Voice(name, "", codes)) else None

    def _write(self, name: str, codes: Codes) -> None:
        body = codes.astype("<i2").tobytes()
        try:
            self._folder.write(name, hashlib.sha256(body).digest() + body)
            self._folder.keep_newest(DISK_ENTRIES)
        except OSError as error:
            log.warning("the clip cache in %s cannot be written: %s", self._folder.path, error)
