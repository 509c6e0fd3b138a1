"""Word times: true where the voice was followed, marked where not, each word once, in order, inside its unit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime.protocol import timings
from realtime.protocol.replies import WordTiming
from realtime.protocol.timings import UnitWords, spoken_spans
from realtime.text.normalizer import normalize

TEXT = "one two three."
WORDS = st.lists(st.sampled_from(["one", "two,", "$4.75", "Dr.", "5%", "(six)", "—", "今天", "3/14/2026"]), max_size=9)


def followed(written: str, spoken: str, looks: list[tuple[float, int]], begin_ms: float = 0.0) -> UnitWords:
    words = UnitWords(written, spoken)
    words.begin(begin_ms)
    for at_ms, char in looks:
        words.hear(at_ms, char)
    return words


def test_a_word_is_heard_while_the_voice_is_in_it() -> None:
    words = followed(TEXT, TEXT, [(100.0 * i, i) for i in range(14)], begin_ms=1_000.0)
    # The blank before a word counts as its beginning; looks are 100 ms apart, and mean the middle.
    assert words.take() == [
        WordTiming("one", 1_000.0, 1_250.0),
        WordTiming("two", 1_250.0, 1_650.0),
        WordTiming("three.", 1_650.0, 2_250.0),
    ]
    assert words.rest(1_400.0) == []


def test_a_word_is_given_when_its_end_is_known_and_not_before() -> None:
    words = followed(TEXT, TEXT, [(0.0, 0), (50.0, 2)])
    assert words.take() == []
    words.hear(100.0, 4)
    assert [word.text for word in words.take()] == ["one"]
    assert [word.text for word in words.rest(500.0)] == ["two", "three."]


def test_a_rewritten_word_takes_the_time_of_all_that_was_said_for_it() -> None:
    written, spoken = "It costs $4.75 now.", "It costs four dollars and seventy five cents now."
    words = followed(written, spoken, [(10.0 * i, i) for i in range(len(spoken))])
    it, costs, price, now = words.rest(490.0)
    assert (it.text, costs.text, price.text, now.text) == ("It", "costs", "$4.75", "now.")
    assert price.end_ms - price.start_ms > 300.0
    assert now.start_ms >= price.end_ms


def test_without_alignment_the_words_share_the_time_and_say_so() -> None:
    words = followed("aaaa bbbb", "aaaa bbbb", [], begin_ms=100.0)
    assert words.take() == []
    assert words.rest(900.0) == [WordTiming("aaaa", 100.0, 500.0, True), WordTiming("bbbb", 600.0, 1_000.0, True)]
    assert words.heard_until(500.0) is None


def test_what_was_heard_ends_behind_the_last_word_begun() -> None:
    words = followed(TEXT, TEXT, [(100.0 * i, i) for i in range(14)])
    assert [TEXT[: words.heard_until(ms)] for ms in (0.0, 10.0, 300.0, 700.0)] == ["", "one", "one two", TEXT]


def test_a_glance_ahead_and_a_look_back_move_no_word() -> None:
    text = "a long enough sentence to look far ahead in it"
    looks = [(50.0 * i, i) for i in range(len(text))]
    looks[5], looks[20] = (250.0, len(text) - 1), (1_000.0, 0)
    plain = followed(text, text, [(50.0 * i, i) for i in range(len(text))]).rest(2_400.0)
    glanced = followed(text, text, looks).rest(2_400.0)
    assert [word.text for word in glanced] == [word.text for word in plain]
    assert all(abs(a.start_ms - b.start_ms) <= 600.0 for a, b in zip(glanced, plain, strict=True))


@given(WORDS, st.lists(st.tuples(st.floats(0, 5_000), st.integers(0, 200)), max_size=30), st.floats(0, 5_000))
def test_every_word_comes_once_in_order_and_inside_the_unit(
    written: list[str], looks: list[tuple[float, int]], audio_ms: float
) -> None:
    text = " ".join(written)
    words = followed(text, normalize(text), sorted(looks), begin_ms=70.0)
    given_words = words.take()
    given_words += words.rest(audio_ms)
    assert "".join(word.text for word in given_words) == "".join(text.split())
    edges = [edge for word in given_words for edge in (word.start_ms, word.end_ms)]
    assert edges == sorted(edges)
    if looks:
        assert all(word.start_ms >= 70.0 for word in given_words)


@given(WORDS)
def test_spans_of_spoken_words_never_fall_and_stay_inside(written: list[str]) -> None:
    text = " ".join(written)
    spoken = normalize(text)
    spans = spoken_spans(text, spoken)
    assert all(0 <= start <= end <= len(spoken) for start, end in spans)
    starts = [start for start, _ in spans]
    assert starts == sorted(starts)


@pytest.mark.parametrize("text", ["中 $1 " * 50, "no $1 " * 50])
def test_a_text_that_repeats_itself_is_not_weighed_word_against_word(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """That takes the cube of its length: a tenth of a second, in which the event loop serves nobody."""
    monkeypatch.setattr(timings, "SequenceMatcher", None)
    spoken = normalize(text)
    spans = spoken_spans(text, spoken)
    assert len(spans) == 100
    assert spans[-1][1] == pytest.approx(len(spoken.rstrip()))
