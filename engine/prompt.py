"""Prompts as matrices: which columns the slow transformer reads before it speaks.

A *column* is int32 [1+K]: row 0 the token id, rows 1..K the codes (zero where the token is text). Each part of
a message is tokenised on its own and the ids are joined, as the family was trained (S2 page, section 3).

The prompt is built in pieces so that a warm slot can hold all of it but the text:

    prefix(voice)   system message with the reference, and the opening of the user message
    turn(text)      the text, the end of the user message, the opening of the assistant message
    next_turn(text) the end of the assistant message and the opening of the next user message, then turn(text)
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from engine.api import Voice
from engine.tokenizer import Tokenizer

__all__ = ["PromptBuilder"]

Columns = npt.NDArray[np.int32]

_INSTRUCTION = "convert the provided text to speech"
_REFERENCE_OPENING = f"{_INSTRUCTION} reference to the following:\n\nText:\n"
_REFERENCE_CLOSING = "\n\nSpeech:\n"
_SPEAKER_TAG = "<|speaker:0|>"


class PromptBuilder:
    def __init__(self, tokenizer: Tokenizer, num_codebooks: int) -> None:
        self._tokenizer = tokenizer
        self._num_codebooks = num_codebooks
        start, end = tokenizer.special("<|im_start|>"), tokenizer.im_end
        encode = tokenizer.encode
        self._open_system = [start, *encode("system\n")]
        self._open_user = [start, *encode("user\n")]
        self._open_assistant = [start, *encode("assistant\n"), tokenizer.special("<|voice|>")]
        self._close = [end, *encode("\n")]

    def prefix(self, voice: Voice) -> Columns:
        """int32 [1+K, T]: everything before the text. A voice without codes is the model's own."""
        if voice.codes.shape[1] == 0:
            return self._text([*self._open_system, *self._plain(_INSTRUCTION), *self._close, *self._open_user])
        transcript = voice.transcript
        if "<|speaker:" not in transcript:
            transcript = _SPEAKER_TAG + transcript
        before = [
            *self._open_system,
            *self._plain(_REFERENCE_OPENING),
            *self._plain(transcript),
            *self._plain(_REFERENCE_CLOSING),
        ]
        after = [*self._close, *self._open_user]
        return np.concatenate([self._text(before), self._speech(voice.codes), self._text(after)], axis=1)

    def turn(self, text: str) -> Columns:
        """int32 [1+K, T]: one unit of text, up to where the model starts to speak."""
        return self._text([*self._plain(text), *self._close, *self._open_assistant])

    def next_turn(self, text: str) -> Columns:
        """int32 [1+K, T]: what follows the last frame of an earlier turn."""
        return np.concatenate([self._text([*self._close, *self._open_user]), self.turn(text)], axis=1)

    def char_starts(self, text: str) -> list[int]:
        """For each token of a turn's text, the index of the character it begins in."""
        return self._tokenizer.char_starts(text)

    @property
    def tokens_after_text(self) -> int:
        """Columns of a turn behind its text."""
        return len(self._close) + len(self._open_assistant)

    def _plain(self, text: str) -> list[int]:
        return self._tokenizer.encode(text)

    def _text(self, ids: list[int]) -> Columns:
        columns = np.zeros((1 + self._num_codebooks, len(ids)), np.int32)
        columns[0] = ids
        return columns

    def _speech(self, codes: npt.NDArray[np.int16]) -> Columns:
        tokens = codes[:1].astype(np.int32) + self._tokenizer.semantic_begin
        return np.concatenate([tokens, codes.astype(np.int32)])
