"""Somebody who was let in: what belongs to others does not exist for him."""

from __future__ import annotations

import secrets
from collections import ChainMap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.api import Voice
from realtime.protocol.context import Context
from realtime.voices.record import VoiceRecord

if TYPE_CHECKING:
    from realtime.server.hub import Hub

__all__ = ["Guest"]


@dataclass(frozen=True, slots=True)
class Guest:
    hub: Hub
    owner: str
    """To whom the voices belong that he uploads; empty where there are no keys."""

    @property
    def voices(self) -> Mapping[str, Voice]:
        """Those he may speak with, by name: the model's own, and those that were uploaded. A live view."""
        own, uploaded = self.hub.runtime.engine.voices, self.hub.library.voices_for(self.owner)
        return ChainMap(own, uploaded)  # type: ignore[arg-type]  # which only reads them

    def new_context(self, voice: str | None = None) -> Context:
        """`voice`: one of his; None, or one that is not: the default."""
        voices = self.voices
        engine = self.hub.runtime.engine
        return Context(
            max_stream_chars=self.hub.config.max_stream_chars,
            voices=voices.keys(),
            voice=voice if voice is not None and voice in voices else self.hub.default_voice,
            new_seed=lambda: secrets.randbits(31),
            language_of_voice=lambda name: voices[name].language if name in voices else "",
            romanizes=engine.limits.is_latin_only,
        )

    def may_change(self, record: VoiceRecord) -> bool:
        return record.owner in ("", self.owner)
