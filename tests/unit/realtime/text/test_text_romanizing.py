"""Text in other scripts, for a model that reads Latin letters alone: never silence, and Latin text untouched."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime.text.languages import language_of
from realtime.text.normalizer import normalize
from realtime.text.segmenter import is_speakable

OTHER_SCRIPTS = "GREEK CYRILLIC HEBREW ARABIC DEVANAGARI BENGALI THAI HANGUL HIRAGANA KATAKANA".split()


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("Привет, как дела?", "Privet, kak dela?"),
        ("今天天气很好，我们去公园吧！", "jin tian tian qi hen hao, wo men qu gong yuan ba!"),
        ("今天是Monday", "jin tian shi Monday"),
        ("안녕하세요", "annyeonghaseyo"),
        ("こんにちは", "konnichiha"),
        ("Καλημέρα σας", "Kalimera sas"),
        ("مرحبا؟", "marahaba?"),
        ("I have ٣ cats and ४ dogs", "I have three cats and four dogs"),
        ("Hello 世界, Привет мир 🙂 and goodbye.", "Hello shi jie, Privet mir and goodbye."),
        ("Café, naïve, señor, Œuvre, Łódź", "Café, naïve, señor, Œuvre, Łódź"),
        ("“Quoted” – it’s 5 €…", '"Quoted", it\'s five euros...'),
    ],
)
def test_golden_lines(written: str, spoken: str) -> None:
    assert normalize(written, romanizes=True) == spoken


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("Ｈｅｌｌｏ ｔｈｅｒｅ", "Hello there"),
        ("𝐇𝐞𝐥𝐥𝐨 𝑡ℎ𝑒𝑟𝑒", "Hello there"),
        ("Ⓗⓘ", "Hi"),
        ("① Open ② Close", "one Open two Close"),
        ("the ﬁrst ﬂoor", "the first floor"),
    ],
)
def test_letters_in_another_dress_are_read_for_every_model(written: str, spoken: str) -> None:
    assert normalize(written) == spoken


def _is_letter(char: str) -> bool:
    return any(word in unicodedata.name(char) for word in ("LETTER", "SYLLABLE", "CHARACTER"))


def letters_of(script: str) -> st.SearchStrategy[str]:
    """Words of a script's letters."""
    chars = [chr(c) for c in range(0x370, 0xD7A4) if unicodedata.name(chr(c), "").startswith(f"{script} ")]
    letters = [char for char in chars if unicodedata.category(char) in ("Lu", "Ll", "Lo") and _is_letter(char)]
    return st.lists(st.text(st.sampled_from(letters), min_size=2, max_size=9), min_size=1, max_size=8).map(" ".join)


@pytest.mark.parametrize("script", OTHER_SCRIPTS)
def test_words_of_another_script_leave_something_to_say_in_latin_letters(script: str) -> None:
    @given(letters_of(script))
    def check(text: str) -> None:
        spoken = normalize(text, romanizes=True)
        assert is_speakable(spoken)
        assert spoken.isascii()

    check()


@given(st.text(max_size=150), st.sampled_from(["en", "es", "fr", "de"]))
def test_no_letter_of_another_script_is_left(text: str, tag: str) -> None:
    spoken = normalize(text, language_of(tag), romanizes=True)
    assert not any("\u0370" <= char <= "\u1dff" or "\u2e80" <= char <= "\ufdff" for char in spoken)


@given(st.text(st.characters(max_codepoint=0x24F), max_size=150))
def test_latin_text_is_read_as_ever(text: str) -> None:
    assert normalize(text, romanizes=True) == normalize(text)
