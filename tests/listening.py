"""Listening to speech in tests, as the gates do."""

from __future__ import annotations

from engine.gate.listening import recognise, word_errors, words

__all__ = ["recognise", "word_errors", "words"]
