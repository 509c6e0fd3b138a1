"""Training rows of the AR model: conversations as the server will build them, from `engine.prompt` itself.

A row is one voice: with or without a reference clip, then as many turns as fit. Every frame of speech and every end of
speech carries loss, the reference's too.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from engine.api import Voice
from engine.prompt import PromptBuilder
from engine.tokenizer import Tokenizer
from engine.training.corpus import CorpusLine
from engine.training.spoken_codes import SpokenCodes

__all__ = ["Row", "RowMaker"]

REFERENCE_FRAMES = (40, 280)
"""2 to 15 s: shorter clips say too little of a voice, longer ones leave no room for turns."""
OWN_VOICE_SHARE = 0.5
"""Of the default voice's rows: without a reference, so that the model has a voice of its own."""
STEP_S = 0.025


@dataclass(frozen=True, slots=True)
class Row:
    columns: npt.NDArray[np.int32]
    """[1+K, T]"""
    spans: npt.NDArray[np.int32]
    """[T, 2]: for the position before a frame, the columns of the word that the frame speaks; 0, 0 where unknown"""


@dataclass(frozen=True, slots=True)
class _Said:
    """A line, read."""

    turn: npt.NDArray[np.int32]
    """[1+K, T]"""
    spans: npt.NDArray[np.int64]
    """[words, 2]: columns of each word within the turn"""
    edges: npt.NDArray[np.int64]
    """[words + 1]: index of each word's first phoneme, and how many there are"""


class RowMaker:
    """Deterministic for a seed. `default_voice` is the one a model without references speaks with."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        corpus: list[CorpusLine],
        codes: SpokenCodes,
        *,
        row_tokens: int,
        frame_s: float,
        default_voice: str,
        seed: int,
    ) -> None:
        self._tokenizer, self._corpus, self._codes = tokenizer, corpus, codes
        self._builder = PromptBuilder(tokenizer, len(codes.codes))
        self._between = self._builder.next_turn("")[:, : -self._builder.turn("").shape[1]]
        """In front of every turn but the first."""
        self._said = cache(self._read)  # a line comes in many rows, and reading it takes longer than all else
        self._row_tokens, self._frame_s, self._default = row_tokens, frame_s, default_voice
        self._chance = np.random.default_rng(seed)
        clips_of: dict[str, list[int]] = defaultdict(list)
        for clip, line in enumerate(codes.lines):
            clips_of[corpus[line].voice].append(clip)
        self._voices = sorted(clips_of)
        self._clips_of = {voice: np.asarray(clips) for voice, clips in clips_of.items()}
        counts = np.asarray([len(self._clips_of[voice]) for voice in self._voices], float)
        self._shares = counts / counts.sum()

    @property
    def state(self) -> dict[str, object]:
        """Of the random generator, for resuming."""
        return dict(self._chance.bit_generator.state)

    @state.setter
    def state(self, state: dict[str, object]) -> None:
        self._chance.bit_generator.state = state

    def make(self) -> Row:
        """One row of at most `row_tokens` columns."""
        voice = self._voices[self._chance.choice(len(self._voices), p=self._shares)]
        clips = self._clips_of[voice]
        parts = [self._builder.prefix(self._reference(voice, clips))]
        spans: list[tuple[int, npt.NDArray[np.int32]]] = []
        length = parts[0].shape[1]
        for number, clip in enumerate(self._chance.choice(clips, min(8, len(clips)), replace=False)):
            said, speech = self._said(self._codes.lines[clip]), self._columns(clip)
            text = np.concatenate([self._between, said.turn], axis=1) if number else said.turn
            if length + text.shape[1] + speech.shape[1] + 1 > self._row_tokens:
                break
            text_at = length + text.shape[1] - said.turn.shape[1]
            spans.append((length + text.shape[1] - 1, self._word_spans(clip, text_at)))
            parts += [text, speech]
            length += text.shape[1] + speech.shape[1]
        end = np.zeros((len(parts[0]), 1), np.int32)
        end[0] = self._tokenizer.im_end
        columns = np.concatenate([*parts, end], axis=1)[:, : self._row_tokens]
        table = np.zeros((columns.shape[1], 2), np.int32)
        for at, part in spans:
            table[at : at + len(part)] = part
        return Row(columns, table)

    def _reference(self, voice: str, clips: np.ndarray) -> Voice:
        if voice == self._default and self._chance.random() < OWN_VOICE_SHARE:
            return Voice(voice, "", np.zeros((len(self._codes.codes), 0), np.int16))
        low, high = REFERENCE_FRAMES
        for clip in self._chance.choice(clips, min(8, len(clips)), replace=False):
            if low <= self._codes.lengths[clip] <= min(high, self._row_tokens // 2):
                return Voice(voice, self._corpus[self._codes.lines[clip]].text, self._codes.clip(clip))
        return Voice(voice, "", np.zeros((len(self._codes.codes), 0), np.int16))

    def _read(self, index: int) -> _Said:
        line = self._corpus[index]
        begun = self._tokenizer.char_starts(line.text)
        starts = np.searchsorted(begun, [char for char, _ in line.words])
        edges = np.cumsum([0, *(count for _, count in line.words)])
        return _Said(self._builder.turn(line.text), np.stack([starts, [*starts[1:], len(begun)]], 1), edges)

    def _columns(self, clip: int) -> npt.NDArray[np.int32]:
        codes = self._codes.clip(clip).astype(np.int32)
        return np.concatenate([codes[:1] + self._tokenizer.semantic_begin, codes])

    def _word_spans(self, clip: int, text_at: int) -> npt.NDArray[np.int32]:
        """int32 [frames, 2]: columns of the word at the middle of each frame, from the teacher's durations."""
        said, steps = self._said(self._codes.lines[clip]), self._codes.durations[clip]
        spoken_s = np.cumsum(steps.astype(np.int64))[np.minimum(said.edges, len(steps) - 1)] * STEP_S
        middles = (np.arange(self._codes.lengths[clip]) + 0.5) * self._frame_s
        word = np.searchsorted(spoken_s, middles, side="right") - 1
        inside = (word >= 0) & (word < len(said.spans))
        table = np.zeros((len(middles), 2), np.int32)
        table[inside] = text_at + said.spans[word[inside]]
        return table
