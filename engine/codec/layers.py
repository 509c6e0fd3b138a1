"""Causal layers of the codec, written for streams: each takes the chunk and the stream's context.

Parameter names are the checkpoint's. Shapes: x [B, C, T]. A layer's name in the streaming state is its module
path, set once by `name_layers`.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.codec.streaming import Context
from engine.model.layers import RMSNorm, apply_rope

__all__ = [
    "CausalConv",
    "CausalConvTranspose",
    "ConvNeXt",
    "ResidualUnit",
    "Snake",
    "StateShapes",
    "WindowTransformer",
    "name_layers",
]

StateShapes = dict[str, tuple[int, ...]]


def name_layers(root: nn.Module) -> StateShapes:
    """Give each stateful layer its path as name; return the shapes of what they remember."""
    shapes: StateShapes = {}
    for path, module in root.named_modules():
        if isinstance(module, CausalConv | CausalConvTranspose | WindowTransformer):
            module.name = path
            shapes |= module.state_shapes()
    return shapes


class Snake(nn.Module):
    """x + sin(a x)^2 / (a + 1e-9), one a per channel."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.ones(1, channels, 1))

    def forward(self, x: Tensor) -> Tensor:
        return x + (self.alpha * x).sin().square() / (self.alpha + 1e-9)


class CausalConv(nn.Module):
    """Convolution whose padding is all on the left: (k-1)*d + 1 - stride past inputs.

    With a stride the chunk must be a multiple of it (the encoder pads a clip's end).
    """

    name: str

    def __init__(self, inputs: int, outputs: int, kernel: int, *, stride: int = 1, dilation: int = 1, groups: int = 1):
        super().__init__()
        self.conv = nn.Conv1d(inputs, outputs, kernel, stride=stride, dilation=dilation, groups=groups)
        self.past = (kernel - 1) * dilation + 1 - stride

    def state_shapes(self) -> StateShapes:
        return {self.name: (self.conv.in_channels, self.past)} if self.past else {}

    def forward(self, x: Tensor, context: Context) -> Tensor:
        return self.conv(context.extend(self.name, x) if self.past else x)


class CausalConvTranspose(nn.Module):
    """Transposed convolution that drops k - s samples on the right, so block t depends on x_t and, if k = 2s, x_t-1."""

    name: str

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int) -> None:
        super().__init__()
        if kernel not in (stride, 2 * stride):
            raise ValueError(f"kernel {kernel} is neither the stride {stride} nor twice it")
        self.conv = nn.ConvTranspose1d(inputs, outputs, kernel, stride=stride)
        self.stride = stride
        self.past = kernel // stride - 1

    def state_shapes(self) -> StateShapes:
        return {self.name: (self.conv.in_channels, 1)} if self.past else {}

    def forward(self, x: Tensor, context: Context) -> Tensor:
        if not self.past:
            return self.conv(x)
        y = self.conv(context.extend(self.name, x))
        return y[..., self.stride : self.stride * (1 + x.shape[-1])]


class ResidualUnit(nn.Module):
    """Snake, dilated conv k7, Snake, conv k1, plus the input."""

    def __init__(self, channels: int, dilation: int) -> None:
        super().__init__()
        self.block = nn.ModuleList(
            [
                Snake(channels),
                CausalConv(channels, channels, 7, dilation=dilation),
                Snake(channels),
                CausalConv(channels, channels, 1),
            ]
        )

    def forward(self, x: Tensor, context: Context) -> Tensor:
        snake1, conv7, snake2, conv1 = self.block
        return x + conv1(snake2(conv7(snake1(x), context)), context)


class ConvNeXt(nn.Module):
    """Depthwise conv k7, LayerNorm, pointwise up and down with GELU, scaled, plus the input."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.dwconv = CausalConv(channels, channels, 7, groups=channels)
        self.norm = nn.LayerNorm(channels, eps=1e-6)
        self.pwconv1 = nn.Linear(channels, 4 * channels)
        self.pwconv2 = nn.Linear(4 * channels, channels)
        self.gamma = nn.Parameter(torch.ones(channels))

    def forward(self, x: Tensor, context: Context) -> Tensor:
        y = self.norm(self.dwconv(x, context).transpose(1, 2))
        y = self.gamma * self.pwconv2(F.gelu(self.pwconv1(y)))
        return x + y.transpose(1, 2)


class _LayerScale(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(channels))


class _Attention(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.wqkv = nn.Linear(channels, 3 * channels, bias=False)
        self.wo = nn.Linear(channels, channels, bias=False)


class _FeedForward(nn.Module):
    def __init__(self, channels: int, ffn: int) -> None:
        super().__init__()
        self.w1 = nn.Linear(channels, ffn, bias=False)
        self.w3 = nn.Linear(channels, ffn, bias=False)
        self.w2 = nn.Linear(ffn, channels, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class _WindowLayer(nn.Module):
    def __init__(self, channels: int, ffn: int, eps: float) -> None:
        super().__init__()
        self.attention = _Attention(channels)
        self.feed_forward = _FeedForward(channels, ffn)
        self.attention_norm = RMSNorm(channels, eps)
        self.ffn_norm = RMSNorm(channels, eps)
        self.attention_layer_scale = _LayerScale(channels)
        self.ffn_layer_scale = _LayerScale(channels)


class WindowTransformer(nn.Module):
    """Causal transformer in which frame t sees frames t-window+1 … t. RoPE at absolute frame positions.

    Remembers keys (after RoPE) and values of the last window-1 frames of each layer, and the position.
    """

    name: str

    def __init__(
        self, channels: int, layers: int, heads: int, ffn: int, window: int, rope_base: float, eps: float
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(_WindowLayer(channels, ffn, eps) for _ in range(layers))
        self.norm = RMSNorm(channels, eps)
        self.heads, self.window, self.rope_base = heads, window, rope_base

    def state_shapes(self) -> StateShapes:
        heads, head_dim = self.heads, self.norm.weight.shape[0] // self.heads
        shapes: StateShapes = {f"{self.name}.position": ()}
        for index in range(len(self.layers)):
            shapes[f"{self.name}.{index}.k"] = shapes[f"{self.name}.{index}.v"] = (
                self.window - 1,
                heads,
                head_dim,
            )
        return shapes

    def forward(self, x: Tensor, context: Context) -> Tensor:
        x = x.transpose(1, 2)
        frames = x.shape[1]
        first = context.advance(f"{self.name}.position", frames)
        table = self._rope(first, frames, x.shape[2] // self.heads)
        mask = self._mask(first, frames)
        for index, layer in enumerate(self.layers):
            attended = self._attend(layer, layer.attention_norm(x), table, mask, f"{self.name}.{index}", context)
            x = x + layer.attention_layer_scale.gamma * attended
            x = x + layer.ffn_layer_scale.gamma * layer.feed_forward(layer.ffn_norm(x))
        return self.norm(x).transpose(1, 2)

    def _rope(self, first: Tensor, frames: int, head_dim: int) -> Tensor:
        """bf16-rounded cos and sin at each row's positions: [B, T, D/2, 2]. Computed, so a stream has no end."""
        device = first.device
        inverse = self.rope_base ** (-torch.arange(0, head_dim, 2, dtype=torch.float32, device=device) / head_dim)
        positions = first[:, None] + torch.arange(frames, device=device)
        angles = positions.float()[..., None] * inverse
        return torch.stack([angles.cos(), angles.sin()], dim=-1).bfloat16().float()

    def _mask(self, first: Tensor, frames: int) -> Tensor:
        """bool [B, 1, T, window-1+T]: the key is within the window, not in the future, and not before the start."""
        device = first.device
        query = torch.arange(frames, device=device)[:, None]
        key = torch.arange(-(self.window - 1), frames, device=device)[None, :]
        seen = (key <= query) & (key > query - self.window)
        return (seen & (key + first[:, None, None] >= 0))[:, None]

    def _attend(
        self, layer: _WindowLayer, x: Tensor, table: Tensor, mask: Tensor, name: str, context: Context
    ) -> Tensor:
        q, k, v = layer.attention.wqkv(x).unflatten(-1, (3, self.heads, -1)).unbind(2)
        q, k = apply_rope(q, table), apply_rope(k, table)
        k = context.extend_time_major(f"{name}.k", k)
        v = context.extend_time_major(f"{name}.v", v)
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return layer.attention.wo(out.transpose(1, 2).flatten(2))
