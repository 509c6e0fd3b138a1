"""The split of an interrupted utterance: all of its words, each once, in order, cut between two of them."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from realtime.audio.chunk import AudioChunk
from realtime.protocol.utterance import Utterance
from realtime.text.segmenter import Segmenter

TEXT = "The first sentence is here. The second one follows it. And the third is not"


def spoken(text: str, *chunks_ms: float, done: int = 0) -> Utterance:
    """An utterance whose sound so far came in these chunks, the first `done` units complete, 100 ms a character."""
    utterance = Utterance(1, Segmenter(), read=str)
    utterance.feed(text)
    for chunk_ms in chunks_ms:
        unit = next(u for u in utterance.units if u.audio_ms < 100 * len(u.text))
        utterance.take_audio(AudioChunk(chunk_ms, b"x"), unit.number, 0.0, 0.0)
    for number in range(done):
        utterance.unit_done(number)
    return utterance


def test_nothing_heard_means_all_remains() -> None:
    assert spoken(TEXT).split_at(None) == ("", TEXT)
    assert spoken(TEXT, 2_700, done=1).split_at(0) == ("", TEXT)


def test_a_finished_unit_counts_as_spoken_and_held_text_remains() -> None:
    assert spoken(TEXT, 2_700, done=1).split_at(None) == (
        "The first sentence is here.",
        "The second one follows it. And the third is not",
    )


def test_the_cut_is_linear_in_time_and_falls_behind_a_word() -> None:
    utterance = spoken(TEXT, 2_700, done=1)
    assert utterance.split_at(500)[0] == "The first"
    assert utterance.split_at(1_200)[0] == "The first sentence"
    assert utterance.split_at(2_699)[0] == "The first sentence is here."


def test_a_unit_under_way_is_scaled_by_the_pace_of_those_before() -> None:
    utterance = spoken(TEXT, 2_700, 1_000, done=1)
    assert utterance.split_at(None)[0] == "The first sentence is here. The second"


@pytest.mark.parametrize(("played_ms", "like_ms"), [(-5.0, 0.0), (1e12, None), (math.inf, None), (math.nan, None)])
def test_positions_outside_the_sound_are_clamped(played_ms: float, like_ms: float | None) -> None:
    utterance = spoken(TEXT, 2_700, 1_000, done=1)
    assert utterance.split_at(played_ms) == utterance.split_at(like_ms)


def test_scripts_without_spaces_are_cut_between_characters() -> None:
    utterance = spoken("今天天气很好我们去公园吧。明天", 650)
    assert utterance.split_at(None) == ("今天天气很好我们去", "公园吧。 明天")


@given(
    st.lists(st.sampled_from(["one", "two", "three.", "four,", "Dr.", "5.5", "six!"]), max_size=40),
    st.lists(st.floats(1, 5_000), max_size=6),
    st.integers(0, 3),
    st.none() | st.floats(-100, 20_000),
)
@example(["one", "three.", "three.", "one", "three.", "one", "three.", "one"], [1048.1548537855504], 1, None)
def test_no_word_is_lost_doubled_or_moved(
    words: list[str], chunks_ms: list[float], done: int, played_ms: float | None
) -> None:
    utterance = Utterance(1, Segmenter(100), read=str)
    utterance.feed(" ".join(words))
    for number in range(min(done, len(utterance.units))):
        utterance.take_audio(AudioChunk(1_000, b"x"), number, 0.0, 0.0)
        utterance.unit_done(number)
    under_way = min(done, len(utterance.units) - 1)
    for chunk_ms in chunks_ms if utterance.units else []:
        utterance.take_audio(AudioChunk(chunk_ms, b"x"), max(under_way, 0), 0.0, 0.0)
    heard, remaining = utterance.split_at(played_ms)
    assert (heard + " " + remaining).split() == words


def test_the_words_of_a_unit_without_sound_lie_where_it_would_have_been() -> None:
    utterance = spoken("The first sentence is here. The second one is here. And", 2_700, done=1)
    silent = utterance.rest_of(1, stream_ms=2_700.0)
    assert silent is not None
    assert {(word.start_ms, word.end_ms) for word in silent.timings} == {(2_700.0, 2_700.0)}
