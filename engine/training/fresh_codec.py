"""First weights of a codec: signals keep their size through all layers, so that every codebook entry is soon in use.

Speech is quiet (RMS 0.06), and the transformers' norms divide by sqrt(mean square + eps): with torch's own weights the
signal sinks below eps, latents become constant and the codebooks collapse to twenty entries.
"""

from __future__ import annotations

import torch
from torch import nn

from engine.codec.codec import CodecModel
from engine.codec.layers import ResidualUnit

__all__ = ["draw_weights"]

LOUDER = 12.0
"""Gain of the first convolution: speech comes out of it with an RMS near one."""
QUIETER = 0.05
"""Gain of the last one: the wave is near speech in level."""
BRANCH = 0.3
"""Gain of a residual branch: twelve in a row must not blow the signal up."""


@torch.no_grad()
def draw_weights(model: CodecModel) -> None:
    """Normal weights of variance 1 / fan-in, zero biases; torch's generator decides."""
    for module in model.modules():
        if isinstance(module, nn.Conv1d | nn.ConvTranspose1d):
            taps = module.kernel_size[0]
            fan_in = module.in_channels * taps // module.groups
            if isinstance(module, nn.ConvTranspose1d):
                fan_in = module.in_channels * taps // module.stride[0]
            module.weight.normal_(std=fan_in**-0.5)
            assert module.bias is not None, "the codec's convolutions have biases"
            module.bias.zero_()
    for module in model.modules():
        if isinstance(module, ResidualUnit):
            module.block[3].conv.weight.mul_(BRANCH)
    model.encoder.block[0].conv.weight.mul_(LOUDER)
    model.decoder.model[-1].conv.weight.mul_(QUIETER)
