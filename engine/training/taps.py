"""Causal convolutions as one matrix product each: what training runs in place of the convolutions of `torch`.

With 16 to 64 channels and millions of steps, convolution kernels leave most of a GPU idle, and their weight gradients
more. Here a step's row holds all its taps, Snake applied, so that forward and both gradients are plain products in
bf16. Rows cost K times the memory of the input; that memory is there, and nothing else is kept.

Layout is time-major: x [B, T, C], rows [B, T, K * C], oldest tap first, zeros before the first step.
"""

from __future__ import annotations

from ctypes import Structure, c_int, c_void_p
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.cuda.kernels import CudaKernels, Kernels, KernelSpec

__all__ = ["GATHER", "GRADIENT", "KernelTaps", "Taps", "TorchTaps", "best_taps", "product", "snake_rows"]

THREADS = 256
BLOCK_ROWS = 1024
EPSILON = 1e-9


class Taps(Protocol):
    """How rows are made and their gradients gathered; `alpha` [C] of the Snake in front, or None."""

    def rows(self, x: Tensor, alpha: Tensor | None, taps: int, dilation: int) -> Tensor: ...

    def gradient(
        self, x: Tensor, alpha: Tensor | None, grad: Tensor, taps: int, dilation: int
    ) -> tuple[Tensor, Tensor | None]:
        """Gradients of x [B, T, C] and alpha [C]."""
        ...


class TorchTaps:
    """In plain torch, on any device and in any precision: the specification of the kernels."""

    def rows(self, x: Tensor, alpha: Tensor | None, taps: int, dilation: int) -> Tensor:
        y = _wide(x)
        if alpha is not None:
            y = y + (alpha * y).sin().square() / (alpha + EPSILON)
        y = F.pad(y.to(x.dtype), (0, 0, (taps - 1) * dilation, 0))
        return torch.cat([y[:, k * dilation : k * dilation + x.shape[1]] for k in range(taps)], dim=-1)

    def gradient(
        self, x: Tensor, alpha: Tensor | None, grad: Tensor, taps: int, dilation: int
    ) -> tuple[Tensor, Tensor | None]:
        steps = x.shape[1]
        parts = F.pad(grad, (0, 0, 0, (taps - 1) * dilation)).unflatten(-1, (taps, -1))
        laters = [(taps - 1 - k) * dilation for k in range(taps)]
        g = sum(_wide(parts[:, later : later + steps, k]) for k, later in enumerate(laters))
        assert isinstance(g, Tensor), "there is a tap"
        if alpha is None:
            return g.to(x.dtype), None
        ax, inverse = alpha * _wide(x), 1 / (alpha + EPSILON)
        slope = 2 * ax.sin() * ax.cos() * inverse
        of_alpha = (g * (_wide(x) * slope - (ax.sin() * inverse).square())).sum((0, 1))
        return (g * (1 + alpha * slope)).to(x.dtype), of_alpha


class _GatherParams(Structure):
    _fields_ = [
        *((name, c_void_p) for name in ("x", "alpha", "rows")),
        *((name, c_int) for name in ("batch", "steps", "channels", "taps", "dilation")),
    ]


class _GradientParams(Structure):
    _fields_ = [
        *((name, c_void_p) for name in ("x", "alpha", "rows", "out", "alpha_parts")),
        *((name, c_int) for name in ("batch", "steps", "channels", "taps", "dilation", "block_rows")),
    ]


GATHER = KernelSpec("taps.cu", "taps_gather", THREADS, _GatherParams)
GRADIENT = KernelSpec("taps.cu", "taps_gradient", THREADS, _GradientParams)


class KernelTaps:
    """By csrc/taps.cu, in bf16. Channels are a multiple of 8, at most 2048; others go to `TorchTaps`."""

    def __init__(self, kernels: Kernels) -> None:
        self._kernels = kernels
        self._others = TorchTaps()

    def rows(self, x: Tensor, alpha: Tensor | None, taps: int, dilation: int) -> Tensor:
        if not _fits(x):
            return self._others.rows(x, alpha, taps, dilation)
        x, alpha = x.contiguous(), _plain(alpha)
        batch, steps, channels = x.shape
        made = torch.empty(batch, steps, taps * channels, dtype=x.dtype, device=x.device)
        params = _GatherParams(_at(x), _at(alpha), _at(made), batch, steps, channels, taps, dilation)
        self._kernels.launch(GATHER, (-(-batch * steps * channels // (8 * THREADS)), 1, 1), params)
        return made

    def gradient(
        self, x: Tensor, alpha: Tensor | None, grad: Tensor, taps: int, dilation: int
    ) -> tuple[Tensor, Tensor | None]:
        if not _fits(x):
            return self._others.gradient(x, alpha, grad, taps, dilation)
        x, grad, alpha = x.contiguous(), grad.contiguous(), _plain(alpha)
        batch, steps, channels = x.shape
        blocks = -(-batch * steps // BLOCK_ROWS)
        made = torch.empty_like(x)
        parts = None if alpha is None else torch.empty(blocks, channels, device=x.device)
        params = _GradientParams(
            _at(x), _at(alpha), _at(grad), _at(made), _at(parts), batch, steps, channels, taps, dilation, BLOCK_ROWS
        )
        self._kernels.launch(GRADIENT, (blocks, 1, 1), params, shared_bytes=THREADS * 8 * 4)
        return made, None if parts is None else parts.sum(0)


def _wide(x: Tensor) -> Tensor:
    """In fp32, or better if it is better."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _fits(x: Tensor) -> bool:
    return x.dtype == torch.bfloat16 and x.shape[2] % 8 == 0 and x.shape[2] <= 8 * THREADS


def _plain(alpha: Tensor | None) -> Tensor | None:
    return None if alpha is None else alpha.float().contiguous()


def _at(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def best_taps(device: torch.device) -> Taps:
    """The kernels on a GPU that compiles them and gets the right numbers, else torch: slower, and training goes on."""
    if device.type != "cuda":
        return TorchTaps()
    try:
        major, minor = torch.cuda.get_device_capability(device)
        kernels = KernelTaps(CudaKernels(f"sm_{major}{minor}{'a' if major >= 9 else ''}"))
        x = torch.randn(2, 40, 32, device=device).bfloat16().requires_grad_()
        alpha = torch.ones(32, device=device, requires_grad=True)
        for mine, exact in zip(*(_tried(by, x, alpha) for by in (kernels, TorchTaps())), strict=True):
            torch.testing.assert_close(mine, exact, rtol=2e-2, atol=2e-2)
    except Exception as error:
        print(f"the kernels of csrc/taps.cu are not used: {error!r}", flush=True)
        return TorchTaps()
    return kernels


def _tried(by: Taps, x: Tensor, alpha: Tensor) -> list[Tensor]:
    """Rows and gradients, by autograd's own thread."""
    rows = snake_rows(x, alpha, 7, 3, by)
    return [rows, *torch.autograd.grad(rows.float().sum(), (x, alpha))]


class _SnakeRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, alpha: Tensor | None, taps: int, dilation: int, by: Taps) -> Tensor:
        ctx.save_for_backward(x, alpha)
        ctx.taps, ctx.dilation, ctx.by = taps, dilation, by
        return by.rows(x, alpha, taps, dilation)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        x, alpha = ctx.saved_tensors
        of_x, of_alpha = ctx.by.gradient(x, alpha, grad, ctx.taps, ctx.dilation)
        return of_x, of_alpha, None, None, None


class _Product(torch.autograd.Function):
    """rows @ weight + bias. The weight's gradient sums over millions of steps: one product a clip, then their sum."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(rows, weight)
        with torch.autocast(rows.device.type, enabled=False):  # the rows say in which precision
            flat = torch.addmm(bias.to(rows.dtype), rows.flatten(0, 1), weight.to(rows.dtype))
        return flat.view(*rows.shape[:2], -1)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:  # type: ignore[override]
        rows, weight = ctx.saved_tensors
        of_weight = torch.bmm(rows.transpose(1, 2), grad).sum(0, dtype=weight.dtype)
        of_bias = grad.sum((0, 1), dtype=weight.dtype)
        of_rows = grad @ weight.to(grad.dtype).T if ctx.needs_input_grad[0] else None
        return of_rows, of_weight, of_bias


def snake_rows(x: Tensor, alpha: Tensor | None, taps: int, dilation: int, by: Taps) -> Tensor:
    """[B, T, C] → [B, T, K * C]."""
    return _SnakeRows.apply(x, alpha, taps, dilation, by)  # type: ignore[no-any-return]


def product(rows: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """rows [B, T, N], weight fp32 [N, O], bias fp32 [O] → [B, T, O] in the rows' precision."""
    return _Product.apply(rows, weight, bias)  # type: ignore[no-any-return]
