"""The estimate of when words are heard."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from realtime.audio.chunk import AudioChunk
from realtime.protocol.replies import Audio, WordTiming
from realtime.protocol.word_estimate import COMMON_MS_PER_CHAR, WordEstimate


def audio(duration_ms: float, text: str = "", timings: tuple[WordTiming, ...] = ()) -> Audio:
    return Audio(AudioChunk(duration_ms, b"sound"), 0.0, 1, 0, 0.0, 0, text, timings)


def test_words_run_evenly_over_the_characters_of_the_first_unit() -> None:
    assert WordEstimate().words(audio(100.0, "Hi you")) == (
        WordTiming("Hi", 0.0, 2 * COMMON_MS_PER_CHAR),
        WordTiming("you", 3 * COMMON_MS_PER_CHAR, 6 * COMMON_MS_PER_CHAR),
    )


def test_the_next_unit_begins_with_its_sound_at_the_pace_of_the_one_before() -> None:
    estimate = WordEstimate()
    estimate.words(audio(100.0, "abcd"))
    assert estimate.words(audio(300.0)) == ()
    assert estimate.words(audio(100.0, "ef")) == (WordTiming("ef", 400.0, 600.0),)


def test_times_that_a_reply_brings_are_taken_as_they_are() -> None:
    times = (WordTiming("Hi", 1.0, 2.0),)
    assert WordEstimate().words(audio(100.0, "Hi", times)) == times


@given(st.lists(st.tuples(st.text("ab .", max_size=12), st.floats(0, 2_000)), max_size=8))
def test_all_words_are_told_once_and_never_run_backwards(units: list[tuple[str, float]]) -> None:
    estimate = WordEstimate()
    words = [word for text, ms in units for word in estimate.words(audio(ms, text))]
    assert [word.text for word in words] == [word for text, _ in units for word in text.split()]
    edges = [edge for word in words for edge in (word.start_ms, word.end_ms)]
    assert all(a <= b for a, b in itertools.pairwise(edges))
