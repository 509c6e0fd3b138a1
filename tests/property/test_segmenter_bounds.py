"""What a segmenter holds back is bounded by a unit and a tag, whatever it is fed, or one client could make it slow."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from realtime.text.segmenter import MAX_TAG_CHARS, Segmenter

MAX_CHARS = 100
RUNS = st.tuples(st.sampled_from('.?。"[<-…\n, a9é(\u2014'), st.integers(1, 400)).map(lambda run: run[0] * run[1])
TEXTS = st.lists(RUNS, max_size=8).map("".join)


@given(TEXTS, st.integers(1, 50))
def test_held_text_is_bounded_and_cuts_do_not_depend_on_the_pieces(text: str, piece_chars: int) -> None:
    whole, pieces = Segmenter(MAX_CHARS), Segmenter(MAX_CHARS)
    units = whole.feed(text)
    fed: list[str] = []
    for start in range(0, len(text), piece_chars):
        fed += pieces.feed(text[start : start + piece_chars])
        assert len(pieces.held) <= MAX_CHARS + MAX_TAG_CHARS + piece_chars
    assert fed == units
    assert pieces.flush() == whole.flush()
    assert all(len(unit) <= MAX_CHARS + MAX_TAG_CHARS for unit in units)
