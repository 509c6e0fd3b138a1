"""A converted checkpoint is what quantising the original gives, bit for bit, and nothing else is taken for one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from engine.api import Sampling
from engine.backends.reference import ReferenceBackend
from engine.codec.codec import Codec
from engine.config import FP8_SCHEMES, ConfigError, ModelConfig
from engine.convert import convert
from engine.cuda.load import choose_fp8, make_backend
from engine.cuda.random_model import S2_PRO
from engine.cuda.upload import Uploaded
from engine.load import load_engine
from engine.quant.formats import LayoutError, Quantised, quantise
from engine.quant.model import QuantisedModel, is_product
from engine.quant.schemes import SCHEMES
from engine.stored_model import open_model
from engine.weights import WeightsError, expected_shapes
from realtime.__main__ import main
from tests.tiny_model import CUDA_CODEC, DIVISIBLE, write_tiny_model
from tests.unit.csrc.emulated import EmulatedDevice

GREEDY = Sampling(temperature=1e-6, top_p=0.9, top_k=30, seed=5)
FRAMES = 6
SAME_INPUTS, ROUNDED_INPUTS = 0.9998, 0.98
"""Cosine of the semantic logits with the fp32 specification of the same weights: activations in bf16, or in E4M3."""


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("original") / "model", config=DIVISIBLE, codec=CUDA_CODEC)


@pytest.fixture(scope="module")
def converted(original: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder for each scheme, in several shards."""
    home = tmp_path_factory.mktemp("converted")
    for scheme in FP8_SCHEMES:
        convert(original, home / scheme, scheme, shard_bytes=400_000)
    return {scheme: home / scheme for scheme in FP8_SCHEMES}


def same(a: Tensor | Quantised, b: Tensor | Quantised) -> bool:
    if isinstance(a, Quantised) and isinstance(b, Quantised):
        return a.grouping == b.grouping and same(a.values, b.values) and same(a.scale, b.scale)
    assert isinstance(a, Tensor)
    assert isinstance(b, Tensor)
    bits = [t.contiguous().flatten().view(torch.uint8) for t in (a, b)]
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(*bits)


@pytest.mark.parametrize("scheme", FP8_SCHEMES)
def test_loading_what_was_converted_is_quantising_what_was_loaded(
    original: Path, converted: Mapping[str, Path], scheme: str
) -> None:
    before, after = open_model(original), open_model(converted[scheme])
    assert after.config.fp8_scheme == scheme
    assert set(after.tensors) == set(before.tensors) == set(expected_shapes(after.config))
    for name, tensor in before.tensors.items():
        expected = quantise(tensor, SCHEMES[scheme].weights) if is_product(name) else tensor
        assert same(after.tensors[name], expected), name


@pytest.mark.parametrize("scheme", FP8_SCHEMES)
def test_the_folder_is_whole_and_smaller(original: Path, converted: Mapping[str, Path], scheme: str) -> None:
    folder = converted[scheme]
    shards = sorted(path.name for path in folder.glob("*.safetensors") if path.name != "codec.safetensors")
    assert len(shards) > 1
    assert shards == [f"model-{i + 1:05}-of-{len(shards):05}.safetensors" for i in range(len(shards))]
    index = json.loads((folder / "model.safetensors.index.json").read_text())["weight_map"]
    assert index == {name: shard for shard in shards for name in load_file(folder / shard)}
    for path in original.rglob("*"):
        if path.is_file() and path.name not in ("config.json", "model.safetensors"):
            assert (folder / path.relative_to(original)).read_bytes() == path.read_bytes()
    assert len({path.stat().st_mode for path in folder.glob("model*")}) == 1, (
        "who may read the index may read the weights"
    )
    sizes = [sum(path.stat().st_size for path in home.glob("model*.safetensors")) for home in (original, folder)]
    assert sizes[1] < 0.6 * sizes[0]


def prompt() -> np.ndarray:
    columns = np.zeros((5, 12), np.int32)
    columns[0] = np.random.default_rng(3).integers(0, 250, 12)
    return columns


def greedy_codes(backend: Any) -> np.ndarray:
    columns = prompt()
    backend.prefill(0, columns[:, :-1], 0)
    backend.arm(0, columns[:, -1], 11, GREEDY)
    for _ in range(FRAMES):
        backend.collect(backend.submit([0], []))
    return backend.codes(0)


@pytest.mark.parametrize("scheme", FP8_SCHEMES)
def test_the_reference_backend_speaks_it_with_the_numbers_that_it_stands_for(
    original: Path, converted: Mapping[str, Path], scheme: str
) -> None:
    codec = Codec.load(original)
    expected = open_model(original).in_fp32()
    for name, parameter in expected.named_parameters():
        if is_product(name):
            parameter.data = quantise(parameter.data, SCHEMES[scheme].weights).dequantised()
    got = open_model(converted[scheme]).in_fp32()
    assert all(
        torch.equal(a, b) for a, b in zip(got.state_dict().values(), expected.state_dict().values(), strict=True)
    )
    backends = [ReferenceBackend(model, codec, slots=1, context_tokens=64) for model in (got, expected)]
    np.testing.assert_array_equal(*(greedy_codes(backend) for backend in backends))


@pytest.mark.parametrize("scheme", FP8_SCHEMES)
def test_an_engine_comes_up_on_it(converted: Mapping[str, Path], scheme: str) -> None:
    engine = load_engine(converted[scheme], backend="reference", slots=1)
    assert set(engine.voices) == {"ada", "bob"}
    engine.close()


@pytest.mark.parametrize(
    ("scheme", "has_block_scales", "kernel", "cosine"),
    [
        ("channels", False, None, ROUNDED_INPUTS),
        ("bsgemm", False, "grouped_gemm", SAME_INPUTS),
        ("mxfp8", False, "grouped_gemm", SAME_INPUTS),
        ("mxfp8", True, "mx_gemm", ROUNDED_INPUTS),
    ],
)
def test_the_cuda_backend_runs_every_scheme(
    converted: Mapping[str, Path], scheme: str, has_block_scales: bool, kernel: str | None, cosine: float
) -> None:
    model, device = open_model(converted[scheme]), EmulatedDevice(has_block_scales=has_block_scales)
    codec = Codec.load(converted[scheme])
    backend = make_backend(model, codec, slots=1, context_tokens=64, fp8=True, device=device)
    columns = prompt()
    backend.prefill(0, columns[:, :-1], 0)
    backend.arm(0, columns[:, -1], columns.shape[1] - 1, GREEDY)
    backend.collect(backend.submit([0], []))
    specification = model.in_fp32()
    exact = specification.semantic_logits(specification.slow(torch.from_numpy(columns).long())[0])[-1]
    got = backend._frame.logits[0, : exact.shape[0]]
    assert float(torch.cosine_similarity(got, exact, dim=0)) > cosine
    assert {name for name in device.kernels.launches if name.endswith("_gemm")} == ({kernel} if kernel else set())


def test_the_cuda_backend_makes_the_same_frames_from_either(original: Path, converted: Mapping[str, Path]) -> None:
    codec = Codec.load(original)
    codes = []
    for folder in (original, converted["channels"]):
        device = EmulatedDevice()
        backend = make_backend(open_model(folder), codec, slots=1, context_tokens=64, fp8=True, device=device)
        greedy_codes(backend)
        codes.append(backend._state.codes[0, :FRAMES].clone())
    assert torch.equal(*codes)


def test_fp8_is_not_unmade(converted: Mapping[str, Path]) -> None:
    model = open_model(converted["channels"])
    assert choose_fp8(model.config, "auto")
    with pytest.raises(ConfigError, match="bf16 needs the one it was made from"):
        make_backend(model, Codec.load(converted["channels"]), slots=1, context_tokens=64, fp8=False)
    with pytest.raises(ConfigError, match="in FP8 already"):
        convert(converted["channels"], converted["channels"] / "again", "mxfp8")


# ---- what is not taken ---------------------------------------------------------------------------------------------


@pytest.fixture
def single(original: Path, tmp_path: Path) -> Path:
    """One scheme in one file, to be damaged."""
    convert(original, tmp_path / "single", "bsgemm")
    return tmp_path / "single"


FILE = "model-00001-of-00001.safetensors"
WEIGHT = "layers.0.attention.wo.weight"


def rewrite(folder: Path, **changes: Tensor | None) -> None:
    tensors: dict[str, Tensor] = {**load_file(folder / FILE), **{k: v for k, v in changes.items() if v is not None}}
    save_file({name: t for name, t in tensors.items() if changes.get(name, t) is not None}, folder / FILE)


def test_a_file_of_another_scheme_is_refused_by_its_scales(single: Path) -> None:
    config = json.loads((single / "config.json").read_text())
    for scheme in ("channels", "mxfp8"):
        config["quantization_config"]["scheme"] = scheme
        (single / "config.json").write_text(json.dumps(config))
        with pytest.raises(WeightsError, match=rf"scheme {scheme}: .*weight_scale is F32 \[\d+, \d+\], expected"):
            open_model(single)
    config["quantization_config"]["scheme"] = "int4"
    (single / "config.json").write_text(json.dumps(config))
    with pytest.raises(ConfigError, match="'int4' is not known; known are channels, bsgemm, mxfp8"):
        open_model(single)
    config["quantization_config"] = {"quant_method": "gptq"}
    (single / "config.json").write_text(json.dumps(config))
    with pytest.raises(ConfigError, match="quant_method is 'gptq'"):
        open_model(single)


def test_scales_of_another_shape_or_order_are_refused(single: Path) -> None:
    scale = load_file(single / FILE)[f"{WEIGHT}_scale"]
    assert scale.shape == (2, 2)
    rewrite(single, **{f"{WEIGHT}_scale": scale.flatten()})
    with pytest.raises(WeightsError, match=r"weight_scale is F32 \[4\], expected F32 \[2, 2\]"):
        open_model(single)
    rewrite(single, **{f"{WEIGHT}_scale": None})
    with pytest.raises(WeightsError, match=r"missing layers\.0\.attention\.wo\.weight_scale \[2, 2\]"):
        open_model(single)


def test_plain_weights_under_an_fp8_config_are_refused_and_the_other_way_round(original: Path, single: Path) -> None:
    weight = load_file(original / "model.safetensors")[WEIGHT]
    rewrite(single, **{WEIGHT: weight})
    with pytest.raises(WeightsError, match=r"wo\.weight is F32 \[256, 256\], expected F8_E4M3 \[256, 256\]"):
        open_model(single)
    config = json.loads((single / "config.json").read_text())
    del config["quantization_config"]
    (single / "config.json").write_text(json.dumps(config))
    with pytest.raises(WeightsError, match=r"surplus .*weight_scale"):
        open_model(single)


def test_a_file_that_is_cut_short_is_refused(single: Path) -> None:
    whole = (single / FILE).read_bytes()
    for broken in (b"", whole[:1000], whole[:-10]):
        (single / FILE).write_bytes(broken)
        with pytest.raises(WeightsError, match="is not readable"):
            open_model(single)


def test_a_tensor_that_stands_twice_is_refused(single: Path) -> None:
    save_file({WEIGHT: load_file(single / FILE)[WEIGHT]}, single / "model-extra.safetensors")
    with pytest.raises(WeightsError, match="stands in two files"):
        open_model(single)


def test_what_cannot_be_converted_leaves_nothing_behind(tiny: Path, original: Path, tmp_path: Path) -> None:
    with pytest.raises(LayoutError, match="does not divide into groups of 128 x 128"):
        convert(tiny, tmp_path / "out", "bsgemm")
    broken = write_tiny_model(tmp_path / "broken", config=DIVISIBLE, codec=CUDA_CODEC)
    tensors = load_file(broken / "model.safetensors")
    tensors[WEIGHT][3, 4] = torch.inf
    save_file(tensors, broken / "model.safetensors")
    with pytest.raises(WeightsError, match=rf"{WEIGHT} holds numbers that are not finite"):
        convert(broken, tmp_path / "out", "channels")
    with pytest.raises(FileExistsError):
        convert(original, broken, "channels")
    assert [path.name for path in tmp_path.iterdir()] == ["broken"]


def test_the_command_converts_and_says_why_it_cannot(
    original: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["convert", str(original), str(tmp_path / "made"), "--scheme", "mxfp8"]) == 0
    assert ModelConfig.read(tmp_path / "made").fp8_scheme == "mxfp8"
    assert "MB of weights" in capsys.readouterr().out
    assert main(["convert", str(original), str(tmp_path / "made")]) == 1
    assert "exists already" in capsys.readouterr().err


# ---- the parts -------------------------------------------------------------------------------------------------------


def test_two_hundred_products_of_s2_pro_are_quantised() -> None:
    """36 + 4 layers of five; heads, embeddings and norms are not."""
    products = [name for name in expected_shapes(S2_PRO) if is_product(name)]
    assert len(products) == 5 * (36 + 4)
    assert not any("norm" in name or "embed" in name or "output" in name for name in products)


def test_folded_norms_are_in_the_products_and_ones_are_left(original: Path) -> None:
    tensors = dict(open_model(original).tensors)
    folded = QuantisedModel(tensors, SCHEMES["channels"].weights, fold_norms=True)
    for layer in ("layers.0.", "fast_layers.1."):
        attention, ffn = (tensors[f"{layer}{name}_norm.weight"].float() for name in ("attention", "ffn"))
        for name, norm in (("attention.wqkv", attention), ("feed_forward.w1", ffn), ("feed_forward.w3", ffn)):
            expected = quantise(tensors[f"{layer}{name}.weight"].float() * norm, SCHEMES["channels"].weights)
            assert same(folded[f"{layer}{name}.weight"], expected)
        for name in ("attention.wo.weight", "feed_forward.w2.weight"):
            assert same(folded[layer + name], quantise(tensors[layer + name], SCHEMES["channels"].weights))
        for name in ("attention", "ffn"):
            assert torch.equal(
                folded[f"{layer}{name}_norm.weight"], torch.ones_like(tensors[f"{layer}{name}_norm.weight"])
            )
    for name in ("norm.weight", "fast_norm.weight", "embeddings.weight", "layers.0.attention.q_norm.weight"):
        assert same(folded[name], tensors[name])


@pytest.mark.parametrize("piece_bytes", [1, 7, 4096, 1 << 20])
def test_tensors_reach_the_device_whole_in_pieces_of_any_size(piece_bytes: int) -> None:
    random = torch.Generator().manual_seed(1)
    weight = torch.randn(32, 96, generator=random)
    source: dict[str, Tensor | Quantised] = {
        "fp32": weight,
        "bf16": weight.bfloat16().T,
        "one": torch.tensor(3.5),
        "none": torch.zeros(0, 4),
        "fp8": quantise(weight, SCHEMES["mxfp8"].weights),
    }
    device = EmulatedDevice()
    uploaded = Uploaded(source, device, device.stream(urgent=False), piece_bytes=piece_bytes)
    assert list(uploaded) == list(source)
    for _ in range(2):
        for name, expected in source.items():
            assert same(uploaded[name], expected), name


class SlowDevice(EmulatedDevice):
    """Counts copies that may still read their piece: recorded, not yet waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.under_way: list[str] = []
        self.recorded = self.most = 0

    def record(self, stream: str) -> str:
        self.recorded += 1
        self.under_way.append(f"copy {self.recorded}")
        self.most = max(self.most, len(self.under_way))
        return self.under_way[-1]

    def join(self, event: str) -> None:
        assert event == self.under_way.pop(0), "the piece whose turn it is was sent first"


def test_a_piece_is_not_written_while_its_last_copy_may_still_read_it() -> None:
    device = SlowDevice()
    source: dict[str, Tensor | Quantised] = {"a": torch.ones(100), "b": torch.ones(30)}
    uploaded = Uploaded(source, device, device.stream(urgent=False), piece_bytes=64)
    assert all(same(uploaded[name], tensor) for name, tensor in source.items())
    assert device.most == 2, "one piece is filled while the other is on its way, and never more"
