"""The normaliser: what is written becomes what is said, whatever is written."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime.text.language import Language
from realtime.text.languages import LANGUAGES, is_language_tag, language_of
from realtime.text.normalizer import normalize

GOLDEN = Path(__file__).parents[3] / "golden"
CASES = [
    (tag, *line.split("\t"))
    for tag in LANGUAGES
    for line in (GOLDEN / f"normalizer-{tag}.tsv").read_text().splitlines()
    if not line.startswith("# written")
]


@pytest.mark.parametrize("tag", LANGUAGES)
def test_the_golden_files_hold_at_least_a_hundred_lines(tag: str) -> None:
    assert sum(case[0] == tag for case in CASES) >= 100


@pytest.mark.parametrize(("tag", "written", "spoken"), CASES, ids=[f"{case[0]} {case[1]}" for case in CASES])
def test_golden_lines(tag: str, written: str, spoken: str) -> None:
    assert normalize(written, LANGUAGES[tag]) == spoken


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
    "0 1 7 12 99 2026 1,204 1.204 3.14 3,14 . , - – / : $ € % ° º ª h er km s am p.m. @ # * _ ` [ ] ( ) < > | & + = x "
    "² ½ ' \" « » ¿ ¡ March marzo mars de M. XIX siglo Louis a www. http:// .com Dr. e.g. \n 🙂 é 今 ٣ \u200d "
    "\ufe0f \u2009 \u202f \x00 \ud800".split(" ")
)
WILD = st.one_of(st.text(max_size=200), st.lists(FRAGMENTS, max_size=30).map("".join))
ANY_LANGUAGE = st.sampled_from(list(LANGUAGES.values()))


@given(WILD, ANY_LANGUAGE)
def test_any_string_is_normalised_without_markup_or_control_characters(text: str, language: Language) -> None:
    spoken = normalize(text, language)
    assert not set(spoken) & set("*#`_|<>{}[]\\^~&@%+=$€£")
    assert all(
        char.isprintable() or char == " " for char in spoken if not char.isalnum() and char not in "\u200c\u200d"
    )
    assert spoken == " ".join(spoken.split())


@given(WILD, ANY_LANGUAGE)
def test_no_western_digit_is_left_for_the_model(text: str, language: Language) -> None:
    assert not set(normalize(text, language)) & set("0123456789")


@given(st.integers(0, 3_000_000), ANY_LANGUAGE)
def test_a_number_is_read_the_same_at_the_end_of_a_sentence_and_its_words_are_left_alone(
    value: int, language: Language
) -> None:
    """French "sept." is September only where no figure was meant."""
    words = normalize(str(value), language)
    assert normalize(f"{value}.", language) == f"{words}."
    assert normalize(f"{words}.", language) == f"{words}."


@given(
    st.lists(st.sampled_from("the quick brown fox jumps over a lazy dog".split()), min_size=1, max_size=12),
    ANY_LANGUAGE,
)
def test_plain_words_pass_unchanged(plain: list[str], language: Language) -> None:
    assert normalize(" ".join(plain), language) == " ".join(plain)


@given(st.text(st.characters(categories=["Lo"]), min_size=1, max_size=30), ANY_LANGUAGE)
def test_other_scripts_pass_unchanged(text: str, language: Language) -> None:
    assert normalize(text, language) == unicodedata.normalize("NFC", text)


def test_text_in_a_language_without_rules_keeps_its_figures_and_symbols_and_loses_its_markup() -> None:
    written = "**Das** kostet 4,75 € & 50 % _mehr_ <b>z. B.</b> 🙂 am 3. Mai"
    assert normalize(written, language_of("de-AT")) == "Das kostet 4,75 € & 50 % mehr z. B. am 3. Mai"


@given(WILD)
def test_text_in_any_other_language_comes_out_without_markup_too(text: str) -> None:
    assert not set(normalize(text, language_of("xx"))) & set("*#`_|{}[]\\^~")


@pytest.mark.parametrize(
    ("tag", "chosen"),
    [("es", "es"), ("es-MX", "es"), ("ES_419", "es"), ("spa", "es"), ("fr-CA", "fr"), ("fre", "fr"), ("en-GB", "en"),
     (None, "en"), ("", "en"), ("de", ""), ("zz-anything", "")],
)  # fmt: skip
def test_a_tag_chooses_by_its_first_part_and_none_is_english(tag: str | None, chosen: str) -> None:
    assert language_of(tag).tag == chosen


@pytest.mark.parametrize("tag", ["Spanish", "e", "es MX", "es-", "español", "es-toolongtag", "12"])
def test_what_is_no_tag_is_told_from_one(tag: str) -> None:
    assert is_language_tag("es-419")
    assert not is_language_tag(tag)
