"""The codec as one object: encode a clip, decode streams of codes.

Frames are `config.hop_samples` long and there is no look-ahead anywhere: frame t's samples are final once frame
t's codes exist, so sound can leave after one frame.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.codec.config import CodecConfig
from engine.codec.layers import (
    CausalConv,
    CausalConvTranspose,
    ResidualUnit,
    Snake,
    WindowTransformer,
    name_layers,
)
from engine.codec.quantizer import Quantizer
from engine.codec.streaming import Context, StreamState
from engine.codec.weights import load_codec_weights

__all__ = ["Codec", "CodecModel", "to_int16"]


class _DecoderBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.block = nn.ModuleList(
            [
                Snake(inputs),
                CausalConvTranspose(inputs, outputs, 2 * stride, stride),
                *(ResidualUnit(outputs, dilation) for dilation in (1, 3, 9)),
            ]
        )

    def forward(self, x: Tensor, context: Context) -> Tensor:
        snake, upsample, *units = self.block
        x = upsample(snake(x), context)
        for unit in units:
            x = unit(x, context)
        return x


class _Decoder(nn.Module):
    """Latents [B, C, T] -> samples [B, 1, T * product of rates]."""

    def __init__(self, config: CodecConfig) -> None:
        super().__init__()
        width = config.decoder_dim
        modules: list[nn.Module] = [CausalConv(config.latent_dim, width, 7)]
        for stride in config.decoder_rates:
            modules.append(_DecoderBlock(width, width // 2, stride))
            width //= 2
        self.model = nn.ModuleList([*modules, Snake(width), CausalConv(width, 1, 7)])

    def forward(self, z: Tensor, context: Context) -> Tensor:
        first, *blocks, snake, last = self.model
        x = first(z, context)
        for block in blocks:
            x = block(x, context)
        return torch.tanh(last(snake(x), context))


class _EncoderBlock(nn.Module):
    def __init__(self, width: int, stride: int, transformer: WindowTransformer | None) -> None:
        super().__init__()
        self.block = nn.ModuleList(
            [
                *(ResidualUnit(width, dilation) for dilation in (1, 3, 9)),
                Snake(width),
                CausalConv(width, 2 * width, 2 * stride, stride=stride),
            ]
        )
        if transformer is not None:
            self.block.append(transformer)

    def forward(self, x: Tensor, context: Context) -> Tensor:
        *units, snake, downsample = self.block[:5]
        for unit in units:
            x = unit(x, context)
        x = downsample(snake(x), context)
        return self.block[5](x, context) if len(self.block) > 5 else x


class _Encoder(nn.Module):
    """Samples [B, 1, N] -> latents [B, C, N / product of rates]."""

    def __init__(self, config: CodecConfig) -> None:
        super().__init__()
        width = config.encoder_dim
        modules: list[nn.Module] = [CausalConv(1, width, 7)]
        for index, stride in enumerate(config.encoder_rates):
            is_last = index == len(config.encoder_rates) - 1
            modules.append(_EncoderBlock(width, stride, self._transformer(config) if is_last else None))
            width *= 2
        self.block = nn.ModuleList([*modules, Snake(width), CausalConv(width, config.latent_dim, 3)])

    @staticmethod
    def _transformer(config: CodecConfig) -> WindowTransformer:
        return WindowTransformer(
            config.latent_dim,
            config.encoder_transformer_layers,
            config.encoder_transformer_heads,
            config.transformer_ffn,
            config.encoder_window,
            config.rope_base,
            config.norm_eps,
        )

    def forward(self, x: Tensor, context: Context) -> Tensor:
        first, *blocks, snake, last = self.block
        x = first(x, context)
        for block in blocks:
            x = block(x, context)
        return last(snake(x), context)


class CodecModel(nn.Module):
    """Module tree with the checkpoint's names. Codes [B, K, F] -> samples, and back."""

    def __init__(self, config: CodecConfig) -> None:
        super().__init__()
        self.encoder = _Encoder(config)
        self.quantizer = Quantizer(config)
        self.decoder = _Decoder(config)

    def decode(self, codes: Tensor, context: Context) -> Tensor:
        """int [B, K, F] -> float [B, F * hop] in [-1, 1]."""
        return self.decoder(self.quantizer.decode(codes, context), context).squeeze(1)

    def encode(self, samples: Tensor, context: Context) -> Tensor:
        """float [B, N], N a multiple of the hop -> int64 [B, K, N / hop]."""
        return self.quantizer.encode(self.encoder(samples[:, None], context), context)


class Codec:
    """Inference over `CodecModel` in fp32. One row is decoded at a time: its samples cannot depend on others."""

    def __init__(self, config: CodecConfig, model: CodecModel) -> None:
        self.config = config
        self._model = model.eval().requires_grad_(False)
        shapes = name_layers(model)
        decoding = ("decoder.", "quantizer.post_module", "quantizer.upsample.")
        self._decode_shapes = {n: s for n, s in shapes.items() if n.startswith(decoding)}
        self._encode_shapes = {n: s for n, s in shapes.items() if not n.startswith(decoding)}

    @classmethod
    def load(cls, folder: Path, device: str = "cpu") -> Codec:
        """From codec.json and codec.safetensors or codec.pth. Raises ConfigError, WeightsError."""
        config = CodecConfig.read(folder)
        with torch.device("meta"):
            model = CodecModel(config)
        weights = load_codec_weights(folder, {name: tuple(t.shape) for name, t in model.state_dict().items()})
        model.load_state_dict({name: t.float().to(device) for name, t in weights.items()}, assign=True)
        return cls(config, model)

    @property
    def device(self) -> torch.device:
        return next(self._model.parameters()).device

    def state_dict(self) -> dict[str, Tensor]:
        """The fused weights by checkpoint name, fp32."""
        return dict(self._model.state_dict())

    def new_state(self, slots: int) -> StreamState:
        """Decoding state for `slots` streams, all fresh."""
        return StreamState.zeros(self._decode_shapes, slots, self.device)

    @torch.inference_mode()
    def decode(self, state: StreamState, slot: int, codes: Tensor) -> Tensor:
        """The next F frames of one stream: int [K, F] -> float32 [F * hop]."""
        return self._model.decode(codes[None].to(self.device), state.row(slot))[0]

    @torch.inference_mode()
    def encode(self, samples: npt.NDArray[np.float32]) -> npt.NDArray[np.int16]:
        """A whole mono clip at the codec's rate: float32 [N] -> int16 [K, ceil(N / hop)]."""
        x = torch.from_numpy(np.ascontiguousarray(samples, dtype=np.float32)).to(self.device)
        x = F.pad(x, (0, -len(samples) % self.config.hop_samples))
        context = StreamState.zeros(self._encode_shapes, 1, self.device).rows()
        return self._model.encode(x[None], context)[0].to(torch.int16).cpu().numpy()


def to_int16(samples: Tensor) -> Tensor:
    """float [-1, 1] -> int16, clipped: +1.0 must not wrap to the most negative value."""
    return (samples * 32767.0).round().clamp(-32768, 32767).to(torch.int16)
