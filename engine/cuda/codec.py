"""The streaming codec as a fixed chain of launches over R streams of F frames, state kept per slot.

The same layers as `engine.codec`, in fp16 with fp32 sums. A layer's input buffer begins with its past: one launch
brings the pasts of all layers in, the chain runs, one launch takes the new pasts out. A Snake is applied by whoever
writes the value, so a convolution reads ready inputs.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.cuda import codec_ops as ops
from engine.cuda.codec_weights import BlockWeights, CodecWeights, WindowLayerWeights
from engine.cuda.conv import ConvActivation, ConvWeight, Rows, Workspace, choose_grid, conv
from engine.cuda.kernels import Kernels
from engine.cuda.slot_state import SlotState

__all__ = ["CodecChain", "CodecState"]

CONVNEXT_EPS = 1e-6


@dataclass(frozen=True, slots=True)
class CodecState:
    """Per slot: each layer's past by name, the rings of the window transformer, the frame position."""

    pasts: dict[str, Tensor]
    """fp16 [S, past, C]."""
    rings: Tensor
    """fp16 [layers, S, 2, window + max_frames, H, D]."""
    positions: Tensor
    """int32 [S]."""

    @classmethod
    def zeros(cls, weights: CodecWeights, slots: int, max_frames: int, device: torch.device) -> CodecState:
        config = weights.config
        heads, width = config.transformer_heads, config.latent_dim

        def fp16(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=torch.float16, device=device)

        shape = (2, config.transformer_window + max_frames, heads, width // heads)
        return cls(
            {name: fp16(slots, past, channels) for name, (past, _, channels) in _inputs(weights).items() if past},
            fp16(config.transformer_layers, slots, *shape),
            torch.zeros(slots, dtype=torch.int32, device=device),
        )


def _inputs(weights: CodecWeights) -> dict[str, tuple[int, int, int]]:
    """Input buffers by name: (past steps, steps per frame, channels)."""
    config = weights.config
    rate, shapes = 1, {}
    for index, up in enumerate(weights.upsamples):
        rate *= up.factor
        shapes[f"upsample.{index}"] = (up.depthwise.shape[0] - 1, rate, config.latent_dim)
    shapes["first"] = (weights.first.past, rate, weights.first.channels)
    for index, block in enumerate(weights.blocks):
        shapes[f"block.{index}"] = (block.upsample.past, rate, block.upsample.channels)
        rate *= block.stride
        for number, unit in enumerate(block.units):
            shapes[f"block.{index}.{number}"] = (unit.conv7.past, rate, unit.conv7.channels)
        # What flows past the units, and what stands between a unit's two convolutions.
        shapes[f"block.{index}.sum"] = shapes[f"block.{index}.mid"] = (0, rate, block.units[0].conv7.channels)
    shapes["last"] = (weights.last.shape[0] - 1, rate, weights.last.shape[1])
    return shapes


class CodecChain:
    """Buffers for up to `max_cells` = R * F frames in one call, and the chain over them."""

    def __init__(
        self,
        kernels: Kernels,
        weights: CodecWeights,
        slots: SlotState,
        *,
        max_rows: int,
        max_frames: int,
        max_cells: int,
    ) -> None:
        self._kernels, self._weights, self._slots = kernels, weights, slots
        self._max_rows, self._max_frames, self._max_cells = max_rows, max_frames, max_cells
        device = slots.positions.device
        self.state = CodecState.zeros(weights, slots.positions.shape[0], max_frames, device)
        self._shapes = _inputs(weights)

        def fp16(values: int) -> Tensor:
            return torch.zeros(values, dtype=torch.float16, device=device)

        self._inputs = {
            name: fp16((max_rows * past + max_cells * steps) * channels)
            for name, (past, steps, channels) in self._shapes.items()
        }
        config = weights.config
        latent, rate = config.latent_dim, self._shapes["first"][1]
        self._tokens = {
            "x": fp16(max_cells * latent),
            "normed": fp16(max_cells * latent),
            "qkv": fp16(max_cells * 3 * latent),
            "attended": fp16(max_cells * latent),
            "gated": fp16(max_cells * config.transformer_ffn),
        }
        self._convnext = (fp16(max_cells * rate * latent), fp16(max_cells * rate * 4 * latent))
        self.pcm = torch.zeros(max_cells * config.hop_samples, dtype=torch.int16, device=device)
        self._workspace = Workspace.empty(self._most_parts(), device)

    def run(self, plan: Tensor, frames: int) -> Tensor:
        """plan int32 [R, 4] -> int16 [R, F * hop], a view of `pcm` that the next run overwrites."""
        rows = plan.shape[0]
        assert rows * frames <= self._max_cells and rows <= self._max_rows and frames <= self._max_frames
        done, positions = self._slots.frames, self.state.positions
        pasts = [ops.Past(self._input(name, rows, frames).values, state) for name, state in self.state.pasts.items()]
        ops.load_past(self._kernels, plan, done, positions, frames, pasts)
        x = self._transformer(plan, rows, frames)
        self._upsample(x, rows, frames)
        self._decode(rows, frames)
        config = self._weights.config
        pcm = self.pcm[: rows * frames * config.hop_samples].view(rows, -1)
        last = self._input("last", rows, frames)
        ops.samples(
            self._kernels,
            plan,
            done,
            last.values,
            self._weights.last,
            self._weights.last_bias,
            pcm,
            frame_samples=config.hop_samples,
        )
        ops.save_past(self._kernels, plan, done, positions, frames, pasts)
        return pcm

    # ---- parts of the chain --------------------------------------------------------------------

    def _transformer(self, plan: Tensor, rows: int, frames: int) -> Tensor:
        weights, config = self._weights, self._weights.config
        x = self._token_buffer("x", rows, frames)
        ops.lookup(self._kernels, plan, self._slots.codes, weights.tables, x, config.codebook_sizes)
        for index, layer in enumerate(weights.layers):
            self._window_layer(layer, index, plan, x)
        normed = self._token_buffer("normed", rows, frames)
        ops.norm(self._kernels, x, weights.norm, normed, config.norm_eps)
        return normed

    def _window_layer(self, layer: WindowLayerWeights, index: int, plan: Tensor, x: Tensor) -> None:
        config, (rows, frames, _) = self._weights.config, x.shape
        normed, qkv, attended, gated = (
            self._token_buffer(name, rows, frames) for name in ("normed", "qkv", "attended", "gated")
        )
        ops.norm(self._kernels, x, layer.attention_norm, normed, config.norm_eps)
        self._conv(Rows(normed, 0), layer.wqkv, out=Rows(qkv, 0))
        ops.window_attention(
            self._kernels,
            plan,
            self.state.positions,
            qkv,
            self._weights.inverse,
            self.state.rings[index],
            attended,
            window=config.transformer_window,
        )
        here = Rows(x, 0)
        self._conv(Rows(attended, 0), layer.wo, out=here, residual=here, residual_scale=layer.attention_scale)
        ops.norm(self._kernels, x, layer.ffn_norm, normed, config.norm_eps)
        self._conv(Rows(normed, 0), layer.gate_up, out=Rows(gated, 0), activation=ConvActivation.SWIGLU)
        self._conv(Rows(gated, 0), layer.down, out=here, residual=here, residual_scale=layer.ffn_scale)

    def _upsample(self, x: Tensor, rows: int, frames: int) -> None:
        """Latents at the frame rate -> the input of the decoder's first convolution."""
        source = Rows(x, 0)
        for index, up in enumerate(self._weights.upsamples):
            here = self._input(f"upsample.{index}", rows, frames)
            self._conv(source, up.upsample, out=here)
            steps, channels = here.values.shape[1] - here.past, here.values.shape[2]
            cells = rows * steps
            normed = self._convnext[0][: cells * channels].view(rows, steps, channels)
            wide = self._convnext[1][: cells * 4 * channels].view(rows, steps, 4 * channels)
            ops.depthwise_norm(
                self._kernels,
                here.values,
                up.depthwise,
                up.depthwise_bias,
                up.norm,
                up.norm_bias,
                normed,
                CONVNEXT_EPS,
            )
            self._conv(Rows(normed, 0), up.expand, out=Rows(wide, 0), activation=ConvActivation.GELU)
            is_last = index == len(self._weights.upsamples) - 1
            # The stage's result is not needed beside its input's past, so an inner one may overwrite `normed`.
            target = self._input("first", rows, frames) if is_last else Rows(normed, 0)
            self._conv(Rows(wide, 0), up.reduce, out=target, residual=here, residual_scale=up.gamma)
            source = target

    def _decode(self, rows: int, frames: int) -> None:
        blocks = self._weights.blocks
        first = self._input("block.0", rows, frames)
        self._conv(self._input("first", rows, frames), self._weights.first, snake=(first, blocks[0].alpha_in))
        for index, block in enumerate(blocks):
            after = index + 1
            is_last = after == len(blocks)
            target = self._input("last" if is_last else f"block.{after}", rows, frames)
            alpha = self._weights.alpha_out if is_last else blocks[after].alpha_in
            self._block(block, f"block.{index}", target, alpha, rows, frames)

    def _block(self, block: BlockWeights, name: str, target: Rows, alpha: Tensor, rows: int, frames: int) -> None:
        """Upsample, then the residual units; the last one's sum leaves through the next layer's Snake alone."""
        total, mid = self._input(f"{name}.sum", rows, frames), self._input(f"{name}.mid", rows, frames)
        inputs = [self._input(f"{name}.{number}", rows, frames) for number in range(len(block.units))]
        repeated = block.units[0].alpha_in.repeat(block.stride)
        self._conv(self._input(name, rows, frames), block.upsample, out=total, snake=(inputs[0], repeated))
        for number, unit in enumerate(block.units):
            self._conv(inputs[number], unit.conv7, snake=(mid, unit.alpha_mid))
            if number + 1 < len(block.units):
                following = (inputs[number + 1], block.units[number + 1].alpha_in)
                self._conv(mid, unit.conv1, out=total, residual=total, snake=following)
            else:
                self._conv(mid, unit.conv1, residual=total, snake=(target, alpha))

    # ---- buffers -------------------------------------------------------------------------------

    def _conv(self, x: Rows, weight: ConvWeight, **arguments) -> None:
        conv(self._kernels, x, weight, self._workspace, **arguments)

    def _input(self, name: str, rows: int, frames: int) -> Rows:
        past, steps, channels = self._shapes[name]
        length = past + frames * steps
        return Rows(self._inputs[name][: rows * length * channels].view(rows, length, channels), past)

    def _token_buffer(self, name: str, rows: int, frames: int) -> Tensor:
        flat = self._tokens[name]
        return flat[: flat.numel() // self._max_cells * rows * frames].view(rows, frames, -1)

    def _most_parts(self) -> int:
        """Floats that split sums may need in any call."""
        most = 1
        for weight, rate in self._products():
            for cells in range(1, self._max_cells + 1):
                m = cells * rate
                k = weight.taps * weight.channels
                grid = choose_grid(m, weight.outputs, k, warpgroups=self._kernels.has_warpgroups)
                if grid.splits > 1:
                    most = max(most, grid.splits * m * weight.outputs)
        return most

    def _products(self) -> list[tuple[ConvWeight, int]]:
        """Every convolution with its steps per frame."""
        weights, shapes = self._weights, self._shapes
        found = [(w, 1) for layer in weights.layers for w in (layer.wqkv, layer.wo, layer.gate_up, layer.down)]
        rate = 1
        for index, up in enumerate(weights.upsamples):
            found.append((up.upsample, rate))
            rate = shapes[f"upsample.{index}"][1]
            found += [(up.expand, rate), (up.reduce, rate)]
        found.append((weights.first, rate))
        for index, block in enumerate(weights.blocks):
            found.append((block.upsample, shapes[f"block.{index}"][1]))
            rate = shapes[f"block.{index}.sum"][1]
            found += [(w, rate) for unit in block.units for w in (unit.conv7, unit.conv1)]
        return found
