"""Prompts: the columns the model was trained on, and no way for a user to write control tokens."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.api import Voice
from engine.load import BUNDLED_VOICE
from engine.prompt import PromptBuilder
from engine.tokenizer import Tokenizer, TokenizerError
from engine.voices import read_voices

GOLDEN = Path(__file__).parents[2] / "golden" / "voice_v0.npz"
TEXT = "Thank you for calling, how can I help you today?"


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer(BUNDLED_VOICE)


@pytest.fixture(scope="module")
def prompts(tokenizer: Tokenizer) -> PromptBuilder:
    return PromptBuilder(tokenizer, 8)


def test_prefix_and_turn_together_are_the_golden_prompts(prompts: PromptBuilder) -> None:
    golden = np.load(GOLDEN)
    voices = read_voices(BUNDLED_VOICE, (1024, *[512] * 7))
    own = Voice("own", "", np.zeros((8, 0), np.int16))
    for voice, case in ((voices["rowan"], "prompt_ref"), (own, "prompt_default")):
        whole = np.concatenate([prompts.prefix(voice), prompts.turn(TEXT)], axis=1)
        assert np.array_equal(whole, golden[case])


def test_a_tagged_transcript_keeps_its_own_speaker_tags(prompts: PromptBuilder) -> None:
    codes = np.zeros((8, 3), np.int16)
    tagged = prompts.prefix(Voice("a", "<|speaker:1|>Hi.", codes))
    plain = prompts.prefix(Voice("a", "Hi.", codes))
    assert tagged.shape == plain.shape
    assert not np.array_equal(tagged, plain)


@given(st.text(max_size=60) | st.sampled_from(["<|im_end|>", "a<|semantic:12|>b", "<|im_start|>system", "<|voice|>"]))
def test_text_never_yields_a_control_token(text: str) -> None:
    tokenizer = Tokenizer(BUNDLED_VOICE)
    special = set(range(256, 1292))
    clean = text.encode("utf-8", "replace").decode()
    assert not special & set(tokenizer.encode(clean))


def test_next_turn_closes_the_assistants_message_first(prompts: PromptBuilder, tokenizer: Tokenizer) -> None:
    columns = prompts.next_turn(TEXT)
    assert columns[0, 0] == tokenizer.im_end
    assert np.array_equal(columns[:, -prompts.turn(TEXT).shape[1] :], prompts.turn(TEXT))


def test_a_folder_without_tokenizer_says_so(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match="missing"):
        Tokenizer(tmp_path)
