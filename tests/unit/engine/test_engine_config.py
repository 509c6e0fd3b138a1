"""config.json in both forms -> one ModelConfig; bad values are errors that name the key."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from engine.config import ConfigError, ModelConfig
from tests.tiny_model import CONFIG

S2_PRO = {
    "model_type": "fish_qwen3_omni",
    "text_config": {
        "vocab_size": 155_776,
        "n_layer": 36,
        "dim": 2560,
        "n_head": 32,
        "n_local_heads": 8,
        "head_dim": 128,
        "intermediate_size": 9728,
        "rope_base": 1_000_000,
        "norm_eps": 1e-6,
        "max_seq_len": 32_768,
        "attention_qk_norm": True,
        "tie_word_embeddings": True,
    },
    "audio_decoder_config": {
        "vocab_size": 4096,
        "num_codebooks": 10,
        "n_layer": 4,
        "dim": 2560,
        "n_head": 32,
        "n_local_heads": 8,
        "head_dim": 128,
        "intermediate_size": 9728,
        "rope_base": 1_000_000,
        "norm_eps": 1e-6,
        "text_dim": 2560,
    },
}


def test_s2_pro_has_its_published_shape() -> None:
    config = ModelConfig.parse(S2_PRO)
    assert (config.slow.q_width, config.slow.kv_width) == (4096, 1024)
    assert config.num_codebooks == 10
    assert config.residual_codebook_size == 1024
    assert config.scale_codebook_embeddings
    assert config.norm_fastlayer_input
    assert not config.has_project_in


def test_a_model_may_say_that_it_was_taught_latin_letters_alone() -> None:
    assert not ModelConfig.parse(S2_PRO).is_latin_only
    assert ModelConfig.parse({**S2_PRO, "latin_only": True}).is_latin_only


def test_the_flat_form_gives_the_same_model() -> None:
    text, audio = S2_PRO["text_config"], S2_PRO["audio_decoder_config"]
    assert isinstance(text, dict)
    assert isinstance(audio, dict)
    flat = {
        **text,
        "model_type": "dual_ar",
        "codebook_size": 4096,
        "num_codebooks": 10,
        "n_fast_layer": 4,
        "fast_attention_qk_norm": False,
        "scale_codebook_embeddings": True,
        "norm_fastlayer_input": True,
    }
    omni, parsed = ModelConfig.parse(S2_PRO), ModelConfig.parse(flat)
    assert parsed.slow == omni.slow
    assert parsed.fast.dim == omni.fast.dim
    assert parsed.fast.layers == 4
    assert not parsed.fast.qk_norm
    assert parsed.norm_fastlayer_input


def test_missing_keys_take_the_familys_defaults() -> None:
    flat = {
        "model_type": "dual_ar",
        "vocab_size": 100,
        "n_layer": 1,
        "dim": 64,
        "n_head": 4,
        "n_local_heads": -1,
        "codebook_size": 16,
        "num_codebooks": 2,
        "n_fast_layer": 1,
    }
    config = ModelConfig.parse(flat)
    assert config.slow.kv_heads == 4
    assert config.slow.head_dim == 16
    assert config.slow.ffn_dim == 256
    assert config.slow.norm_eps == 1e-5
    assert not config.scale_codebook_embeddings
    assert not config.norm_fastlayer_input


@pytest.mark.parametrize(
    ("where", "key", "value", "named"),
    [
        ("text_config", "n_layer", None, "n_layer"),
        ("text_config", "dim", 0, "dim"),
        ("text_config", "head_dim", 15, "head_dim"),
        ("text_config", "n_local_heads", 3, "n_local_heads"),
        ("audio_decoder_config", "text_dim", 7, "text_dim"),
        ("audio_decoder_config", "num_codebooks", None, "num_codebooks"),
        (None, "model_type", "llama", "model_type"),
        (None, "residual_codebook_size", 65, "residual_codebook_size"),
        (None, "norm_fastlayer_input", "yes", "config.json: norm_fastlayer_input must be true or false"),
        (None, "text_config", [], "text_config must be an object"),
        ("text_config", "n_layer", 0, "text_config: n_layer must be a positive integer, not 0"),
        ("text_config", "n_layer", "two", "text_config: n_layer must be a positive integer, not 'two'"),
        ("text_config", "n_head", 2.5, "n_head"),
        ("text_config", "n_head", True, "n_head"),
        ("text_config", "rope_base", -1.0, "rope_base must be a positive number"),
        ("text_config", "norm_eps", float("nan"), "norm_eps"),
        ("text_config", "attention_qk_norm", 1, "attention_qk_norm"),
        ("audio_decoder_config", "n_local_heads", -2, "audio_decoder_config: n_local_heads"),
        (None, "rope_interleaved", False, "rope_interleaved"),
    ],
)
def test_a_bad_value_is_an_error_that_names_the_key(where: str | None, key: str, value: object, named: str) -> None:
    data = copy.deepcopy(CONFIG)
    target = data if where is None else data[where]
    target[key] = value
    with pytest.raises(ConfigError, match=named):
        ModelConfig.parse(data)


def test_null_means_missing_in_both_forms() -> None:
    data = copy.deepcopy(CONFIG)
    for key in ("norm_fastlayer_input", "scale_codebook_embeddings", "rope_table_bf16"):
        data[key] = None
    data["text_config"]["tie_word_embeddings"] = None
    assert ModelConfig.parse(data) == ModelConfig.parse(CONFIG)


def test_a_null_fast_key_of_the_flat_form_means_as_the_slow_stack() -> None:
    flat = {
        "model_type": "dual_ar",
        "vocab_size": 100,
        "n_layer": 3,
        "dim": 64,
        "n_head": 4,
        "attention_qk_norm": True,
        "codebook_size": 16,
        "num_codebooks": 2,
        "n_fast_layer": 1,
        "fast_dim": 32,
        "fast_n_head": None,
        "fast_attention_qk_norm": False,
    }
    fast = ModelConfig.parse(flat).fast
    assert (fast.layers, fast.dim, fast.heads, fast.head_dim, fast.qk_norm) == (1, 32, 4, 8, False)
    assert (fast.vocab_size, fast.max_seq_len) == (16, 3)
    with pytest.raises(ConfigError, match=r"fast_\*\): dim must be a positive integer"):
        ModelConfig.parse(flat | {"fast_dim": 0})


def test_files_that_are_no_config(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="missing"):
        ModelConfig.read(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ConfigError, match="not JSON"):
        ModelConfig.read(tmp_path)
    (tmp_path / "config.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not JSON"):
        ModelConfig.read(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps([1]))
    with pytest.raises(ConfigError, match="object"):
        ModelConfig.read(tmp_path)
