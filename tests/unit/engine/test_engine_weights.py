"""Checkpoints load strictly, whatever form they come in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.config import ModelConfig
from engine.weights import WeightsError, expected_shapes, load, to_raw_names
from tests.unit.engine.test_engine_config import S2_PRO


@pytest.fixture
def checkpoint(tiny: Path) -> tuple[ModelConfig, dict[str, torch.Tensor]]:
    return ModelConfig.read(tiny), load_file(tiny / "model.safetensors")


def to_hf_names(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    renamed = {}
    for name, tensor in tensors.items():
        if name.startswith("codebook_embeddings"):
            renamed[f"audio_decoder.{name}"] = tensor
        elif name.startswith("fast_"):
            renamed[f"audio_decoder.{name.removeprefix('fast_')}"] = tensor
        else:
            renamed[f"text_model.model.{name}"] = tensor
    return renamed


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_s2_pro_has_358_tensors() -> None:
    assert len(expected_shapes(ModelConfig.parse(S2_PRO))) == 358


def test_every_form_gives_the_same_tensors(tmp_path: Path, checkpoint) -> None:
    config, raw = checkpoint
    save_file(to_hf_names(raw), tmp_path / "model.safetensors")
    assert same(load(tmp_path, config), raw)

    sharded = tmp_path / "sharded"
    sharded.mkdir()
    names = sorted(raw)
    weight_map = {}
    for number, part in enumerate((names[::2], names[1::2]), 1):
        file = f"model-{number:05}-of-00002.safetensors"
        save_file({name: raw[name] for name in part}, sharded / file)
        weight_map |= dict.fromkeys(part, file)
    (sharded / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    assert same(load(sharded, config), raw)

    legacy = tmp_path / "legacy"
    legacy.mkdir()
    split = {f"model.{name}": tensor for name, tensor in raw.items()}
    joined = split.pop("model.layers.0.attention.wqkv.weight")
    stack = config.slow
    parts = joined.split([stack.q_width, stack.kv_width, stack.kv_width])
    split |= {f"model.layers.0.attention.{n}.weight": p for n, p in zip(("wq", "wk", "wv"), parts, strict=True)}
    torch.save({"state_dict": split}, legacy / "model.pth")
    assert same(load(legacy, config), raw)


def test_missing_surplus_and_misshaped_tensors_are_named_with_both_shapes(tmp_path: Path, checkpoint) -> None:
    config, raw = checkpoint
    broken = dict(raw)
    del broken["norm.weight"]
    broken["extra.weight"] = torch.zeros(3)
    broken["fast_norm.weight"] = torch.zeros(31)
    save_file(broken, tmp_path / "model.safetensors")
    with pytest.raises(WeightsError) as caught:
        load(tmp_path, config)
    message = str(caught.value)
    assert "missing norm.weight [48]" in message
    assert "surplus extra.weight [3]" in message
    assert "fast_norm.weight has shape [31], expected [32]" in message


def test_half_a_split_projection_is_an_error() -> None:
    with pytest.raises(WeightsError, match="wk"):
        to_raw_names({"layers.0.attention.wq.weight": torch.zeros(1, 1)})


def test_a_shard_outside_the_folder_is_refused(tmp_path: Path, checkpoint) -> None:
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "../a.safetensors"}}))
    with pytest.raises(WeightsError, match="outside"):
        load(tmp_path, checkpoint[0])


def test_a_folder_without_weights_says_so(tmp_path: Path, checkpoint) -> None:
    with pytest.raises(WeightsError, match=r"model\.safetensors"):
        load(tmp_path, checkpoint[0])


def test_two_names_for_one_tensor_are_an_error() -> None:
    tensor = torch.zeros(1)
    with pytest.raises(WeightsError, match=r"both mean norm\.weight"):
        to_raw_names({"norm.weight": tensor, "text_model.model.norm.weight": tensor})
    parts = {f"layers.0.attention.{name}.weight": torch.zeros(1, 1) for name in ("wq", "wk", "wv", "wqkv")}
    with pytest.raises(WeightsError, match="stands beside"):
        to_raw_names(parts)


def test_files_that_cannot_be_read_are_named(tmp_path: Path, checkpoint) -> None:
    config, raw = checkpoint
    save_file(raw, tmp_path / "model.safetensors")
    whole = (tmp_path / "model.safetensors").read_bytes()
    for broken in (b"", b"garbage", whole[:1000], whole[:-10]):
        (tmp_path / "model.safetensors").write_bytes(broken)
        with pytest.raises(WeightsError, match=r"model\.safetensors is not readable"):
            load(tmp_path, config)
    (tmp_path / "model.safetensors").unlink()
    for broken in (b"", b"garbage", b"PK\x03\x04garbage"):
        (tmp_path / "model.pth").write_bytes(broken)
        with pytest.raises(WeightsError, match=r"model\.pth is not readable"):
            load(tmp_path, config)
    for broken in ("{", "[]", "{}", '{"weight_map": 5}'):
        (tmp_path / "model.safetensors.index.json").write_text(broken)
        with pytest.raises(WeightsError, match="holds no weight_map"):
            load(tmp_path, config)


def test_a_pickle_that_would_run_code_is_refused(tmp_path: Path, checkpoint) -> None:
    class Evil:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return exec, ("raise SystemExit('code in a checkpoint ran')",)

    torch.save({"state_dict": Evil()}, tmp_path / "model.pth")
    with pytest.raises(WeightsError, match="not readable"):
        load(tmp_path, checkpoint[0])


def test_other_tasks_modules_in_legacy_files_are_dropped(tmp_path: Path, checkpoint) -> None:
    config, raw = checkpoint
    torch.save(raw | {"audio_projector.weight": torch.zeros(2)}, tmp_path / "model.pth")
    assert same(load(tmp_path, config), raw)
