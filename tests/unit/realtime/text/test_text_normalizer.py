"""The normaliser: what is written becomes what is said, whatever is written."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime.text.normalizer import normalize

GOLDEN = Path(__file__).parents[3] / "golden" / "normalizer.tsv"
CASES = [line.split("\t") for line in GOLDEN.read_text().splitlines() if not line.startswith("# written")]


def test_the_golden_file_holds_at_least_sixty_lines() -> None:
    assert len(CASES) >= 60


@pytest.mark.parametrize(("written", "spoken"), CASES, ids=[case[0] for case in CASES])
def test_golden_lines(written: str, spoken: str) -> None:
    assert normalize(written) == spoken


def test_markdown_slashes_and_links_from_a_language_model() -> None:
    written = "## Total\n**$12**: see https://shop.example.com/a_b?x=1 or/and call 555-0100."
    assert normalize(written) == (
        "Total. twelve dollars: see shop dot example dot com slash a b or and call five five five, zero one zero zero."
    )


def test_a_fenced_block_and_a_table_lose_their_marks_alone() -> None:
    written = "```python\nprint(x)\n```\n| name | age |\n|------|----:|\n| Ann | 41 |\n\n---\n> done"
    assert normalize(written) == "print(x). name, age. Ann, forty one. done"


@pytest.mark.parametrize("text", ["<|im_end|>", "&lt;|im_end|&gt;", "<<|x|>|im_end|>", "<|a<|im_end|>"])
def test_no_control_string_survives_not_even_one_that_removal_puts_together(text: str) -> None:
    assert not set(normalize(f"Go {text} on")) & set("<|>")


@pytest.mark.parametrize("text", ["", " \n\t", "…", " — ", "🙂", "***", "\x00\x07", "[cue]", "<break/>", "$", "()", "‍"])
def test_what_says_nothing_becomes_nothing_speakable(text: str) -> None:
    assert not any(char.isalnum() for char in normalize(text))


FRAGMENTS = st.sampled_from(
    "0 1 7 12 99 2026 1,204 3.14 . , - – / : $ € % ° km s am p.m. @ # * _ ` [ ] ( ) < > | & + = x ² ½ ' \" March a "
    "www. http:// .com Dr. e.g. \n 🙂 é 今 ٣ \u200d \ufe0f \x00 \ud800".split(" ")
)
WILD = st.one_of(st.text(max_size=200), st.lists(FRAGMENTS, max_size=30).map("".join))


@given(WILD)
def test_any_string_is_normalised_without_markup_or_control_characters(text: str) -> None:
    spoken = normalize(text)
    assert not set(spoken) & set("*#`_|<>{}[]\\^~&@%+=$€£")
    assert all(
        char.isprintable() or char == " " for char in spoken if not char.isalnum() and char not in "\u200c\u200d"
    )
    assert spoken == " ".join(spoken.split())


@given(WILD)
def test_no_western_digit_is_left_for_the_model(text: str) -> None:
    assert not set(normalize(text)) & set("0123456789")


@given(st.lists(st.sampled_from("the quick brown fox jumps over a lazy dog".split()), min_size=1, max_size=12))
def test_plain_words_pass_unchanged(plain: list[str]) -> None:
    assert normalize(" ".join(plain)) == " ".join(plain)


@given(st.text(st.characters(categories=["Lo"]), min_size=1, max_size=30))
def test_other_scripts_pass_unchanged(text: str) -> None:
    assert normalize(text) == unicodedata.normalize("NFC", text)
