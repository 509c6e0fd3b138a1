"""Tokens: good until they expire, with any list that holds their key, and worthless when one bit is changed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime.server.tokens import TOKEN_S, make_token, token_key

KEYS = ("alpha", "beta")
NOW_S = 1_800_000_000.0


def test_a_token_counts_as_its_key_until_it_expires() -> None:
    token = make_token("beta", NOW_S)
    assert token_key(token, KEYS, NOW_S) == "beta"
    assert token_key(token, KEYS, NOW_S + TOKEN_S - 1) == "beta"
    assert token_key(token, KEYS, NOW_S + TOKEN_S) is None


def test_taking_the_key_out_takes_its_tokens_along() -> None:
    assert token_key(make_token("beta", NOW_S), ("alpha",), NOW_S) is None


def test_a_token_names_no_key_and_no_two_are_alike() -> None:
    first, second = make_token("beta", NOW_S), make_token("beta", NOW_S)
    assert first != second
    assert "beta" not in first
    assert first.replace("_", "").isalnum()


@given(st.data())
def test_a_changed_token_is_worthless(data: st.DataObject) -> None:
    token = make_token("alpha", NOW_S)
    index = data.draw(st.integers(0, len(token) - 1))
    char = data.draw(st.sampled_from("0123456789abcdefk_tZ"))
    changed = token[:index] + char + token[index + 1 :]
    assert (token_key(changed, KEYS, NOW_S) is None) == (changed != token)


@pytest.mark.parametrize("text", ["", "_", "___", "kft___", "kft_zz_00_00", "kft_ffffffffff_00", "ü_ü_ü_ü"])
def test_what_is_no_token_is_no_error(text: str) -> None:
    assert token_key(text, KEYS, NOW_S) is None


@given(st.text())
def test_any_text_is_no_token(text: str) -> None:
    assert token_key(text, KEYS, NOW_S) is None
