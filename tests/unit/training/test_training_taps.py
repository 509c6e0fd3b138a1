"""Convolutions as matrix products: the same numbers and gradients as the engine's modules, and kernels that agree."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from engine.codec.codec import CodecModel
from engine.codec.config import CodecConfig
from engine.cuda.kernels import Kernels
from engine.training.taps import KernelTaps, TorchTaps, product, snake_rows
from engine.training.whole_clips import WholeClips, quantize, run_as_products
from tests.tiny_model import CODEC
from tests.unit.csrc.emulated import EmulatedKernels, drawn

BF16_TOLERANCE = 8e-3
"""Half an ulp is 2^-9 relative."""


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    return EmulatedKernels()


def seeded(*shape: int, seed: int) -> Tensor:
    return drawn(torch.Generator().manual_seed(seed), *shape)


@pytest.mark.parametrize("has_snake", [True, False])
@pytest.mark.parametrize(
    ("batch", "steps", "channels", "taps", "dilation"),
    [(2, 5, 16, 7, 1), (1, 90, 32, 7, 9), (3, 4, 24, 2, 1), (2, 7, 8, 1, 1), (1, 3, 640, 2, 1)],
)
def test_kernels_equal_torch(
    kernels: Kernels, batch: int, steps: int, channels: int, taps: int, dilation: int, has_snake: bool
) -> None:
    x = seeded(batch, steps, channels, seed=1).bfloat16()
    alpha = seeded(channels, seed=2).abs() + 0.2 if has_snake else None
    grad = seeded(batch, steps, taps * channels, seed=3).bfloat16()
    mine, exact = KernelTaps(kernels), TorchTaps()
    close = {"rtol": BF16_TOLERANCE, "atol": BF16_TOLERANCE}
    torch.testing.assert_close(mine.rows(x, alpha, taps, dilation), exact.rows(x, alpha, taps, dilation), **close)
    of_x, of_alpha = mine.gradient(x, alpha, grad, taps, dilation)
    wanted_x, wanted_alpha = exact.gradient(x, alpha, grad, taps, dilation)
    torch.testing.assert_close(of_x, wanted_x, **close)
    if has_snake:
        torch.testing.assert_close(of_alpha, wanted_alpha, rtol=1e-3, atol=1e-3)
    else:
        assert of_alpha is None


@pytest.mark.parametrize(("taps", "dilation"), [(1, 1), (3, 2), (7, 3)])
def test_gradients_are_derivatives(taps: int, dilation: int) -> None:
    x = seeded(2, 6, 3, seed=1).double().requires_grad_()
    alpha = (seeded(3, seed=2).double().abs() + 0.3).requires_grad_()
    weight, bias = seeded(3 * taps, 2, seed=3).double().requires_grad_(), seeded(2, seed=4).double().requires_grad_()

    def convolve(x: Tensor, alpha: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return product(snake_rows(x, alpha, taps, dilation, TorchTaps()), weight, bias)

    assert torch.autograd.gradcheck(convolve, (x, alpha, weight, bias))


def test_a_codec_of_products_is_the_engines_codec() -> None:
    """Forward and every parameter's gradient."""
    torch.manual_seed(3)
    shape = {**CODEC, "sample_rate": 24_000, "encoder_rates": (4, 4, 4, 5), "decoder_rates": (5, 4, 4, 4)}
    config = CodecConfig(**{name: tuple(v) if isinstance(v, list) else v for name, v in shape.items()})
    plain, products = CodecModel(config), CodecModel(config)
    products.load_state_dict(plain.state_dict())
    run_as_products(products, TorchTaps())
    wave = 0.3 * torch.randn(2, 1, 4 * config.hop_samples)

    def run(model: nn.Module) -> Tensor:
        context = WholeClips.of(model).begin(2, torch.get_default_device())
        bottleneck = quantize(model.quantizer, model.encoder(wave, context), context)
        z = model.quantizer.post_module(bottleneck.z, context)
        for upsample, block in model.quantizer.upsample:
            z = block(upsample(z, context), context)
        made = model.decoder(z, context)
        (made.square().mean() + bottleneck.commitment).backward()
        return made.detach()

    torch.testing.assert_close(run(products), run(plain), rtol=1e-4, atol=1e-5)
    for (name, mine), theirs in zip(products.named_parameters(), plain.parameters(), strict=True):
        assert theirs.grad is not None, name
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-3, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}")
