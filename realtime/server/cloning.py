"""From the clips that a request or an upload brings to a voice. Each clip is encoded once."""

from __future__ import annotations

import asyncio
from functools import partial

import numpy as np

from engine.api import BadReference as UnusableClip
from engine.api import Codes, Voice
from realtime.errors import BadReference, Overloaded
from realtime.protocol.events import Reference
from realtime.runtime.mailbox import MailboxFull
from realtime.runtime.runtime import Runtime
from realtime.voices.clips import ClipCache
from realtime.voices.limits import checked_transcript

__all__ = ["Cloning"]

MAX_JOINED_S = 31.0
"""Of the clips of a voice; a single one may have 30 s, which fill up their last frame."""

ENCODE_S = 120.0
"""For all clips of a voice, those in the queue before them included: others' clips keep nobody waiting for longer."""


class Cloning:
    """Lives on the event loop."""

    def __init__(self, runtime: Runtime, clips: ClipCache) -> None:
        self._runtime, self._clips = runtime, clips

    async def voice(self, reference: Reference) -> Voice:
        """Raises BadReference and Overloaded."""
        text = checked_transcript(reference.text)
        try:
            async with asyncio.timeout(ENCODE_S):
                return await self._joined(reference, text)
        except TimeoutError:
            raise Overloaded(f"the clips were not encoded within {ENCODE_S:g} s") from None

    async def _joined(self, reference: Reference, text: str) -> Voice:
        if len(reference.clips) == 1:
            return await self._of_clip(reference.clips[0], text)
        voices = [await self._of_clip(clip, "") for clip in reference.clips]
        codes = np.concatenate([voice.codes for voice in voices], axis=1)
        seconds = codes.shape[1] * self._runtime.engine.limits.frame_s
        if seconds > MAX_JOINED_S:
            raise BadReference(f"the clips last {seconds:.1f} s together; at most {MAX_JOINED_S:g} s are used")
        return Voice(voices[0].name, text, codes)

    async def _of_clip(self, clip: bytes, text: str) -> Voice:
        return await self._clips.voice(clip, text, partial(self._encode, clip))

    async def _encode(self, clip: bytes, name: str) -> Codes:
        try:
            return (await self._runtime.encode_reference(clip, "", name)).codes
        except UnusableClip as error:
            raise BadReference(str(error)) from None
        except MailboxFull as error:
            raise Overloaded(f"too many clips wait to be encoded: {error}") from None
