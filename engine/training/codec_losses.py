"""What the codec is trained for: mel spectra at several scales, phonemes from the semantic code, two discriminators.

Sources: multi-scale mel L1 and the loss weights as in the Descript codec's paper (Kumar et al. 2023), hinge losses and
feature matching as in HiFi-GAN and its followers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

__all__ = ["Discriminators", "MelLoss", "feature_distance", "hinge_fake", "hinge_real"]

SCALES = ((2048, 100), (1024, 80), (512, 40), (256, 20), (128, 10))
"""(window, mel bins) at 24 kHz; hops are a quarter of the window."""
FLOOR = 1e-5


def spectra(x: Tensor, window: int) -> Tensor:
    """Hann-windowed spectra of [B, N], N a multiple of the hop, window / 4: complex [B, N / hop + 1, window / 2 + 1].

    What `torch.stft` gives with zeros around the signal. But a window is four hops side by side, so the gradient is
    four shifted sums; that of `torch.stft` adds every sample of every window to its place, one by one.
    """
    hop = window // 4
    hops = F.pad(x, (window // 2, window // 2)).unflatten(1, (-1, hop))
    frames = hops.shape[1] - 3
    windows = torch.cat([hops[:, k : k + frames] for k in range(4)], dim=-1)
    return torch.fft.rfft(windows * _hann(window, x.device, x.dtype))


@cache
def _hann(window: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Made once: a step asks nineteen times, and each would be half a dozen launches."""
    return torch.hann_window(window, device=device, dtype=dtype)


def mel_matrix(bins: int, window: int, rate_hz: int) -> Tensor:
    """Triangles on the mel scale (2595 log10(1 + f / 700)), each of area one: [window / 2 + 1, bins]."""
    high = 2595 * math.log10(1 + rate_hz / 2 / 700)
    edges_hz = 700 * (10 ** (torch.linspace(0, high, bins + 2) / 2595) - 1)
    hz = torch.linspace(0, rate_hz / 2, window // 2 + 1)[:, None]
    rising = (hz - edges_hz[:-2]) / (edges_hz[1:-1] - edges_hz[:-2])
    falling = (edges_hz[2:] - hz) / (edges_hz[2:] - edges_hz[1:-1])
    return torch.minimum(rising, falling).clamp(min=0) * 2 / (edges_hz[2:] - edges_hz[:-2])


class MelLoss(nn.Module):
    """Mean over scales of the L1 distance of log10 mel spectra."""

    def __init__(self, rate_hz: int) -> None:
        super().__init__()
        for window, bins in SCALES:
            self.register_buffer(f"mel{window}", mel_matrix(bins, window, rate_hz) * 1000, persistent=False)

    def forward(self, made: Tensor, wanted: Tensor) -> Tensor:
        """float32 [B, N] each, N a multiple of 512."""
        total = made.new_zeros(())
        for window, _ in SCALES:
            total = total + F.l1_loss(self._mel(made, window), self._mel(wanted, window))
        return total / len(SCALES)

    def _mel(self, x: Tensor, window: int) -> Tensor:
        return (spectra(x, window).abs() @ getattr(self, f"mel{window}")).clamp(min=FLOOR).log10()


def _conv(inputs: int, outputs: int, kernel: tuple[int, int], stride: tuple[int, int] = (1, 1)) -> nn.Module:
    return weight_norm(
        nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=((kernel[0] - 1) // 2, (kernel[1] - 1) // 2))
    )


class _Stack(nn.Module):
    def __init__(self, convs: Sequence[nn.Module]) -> None:
        super().__init__()
        self.convs = nn.ModuleList(convs)

    def forward(self, x: Tensor) -> list[Tensor]:
        """Features of each layer; the last is the verdict."""
        features = []
        for index, conv in enumerate(self.convs):
            x = conv(x)
            if index < len(self.convs) - 1:
                x = F.leaky_relu(x, 0.1)
            features.append(x)
        return features


class Discriminators(nn.Module):
    """Periods of the waveform, and complex spectra at three resolutions."""

    def __init__(self, periods: Sequence[int] = (2, 3, 5, 7, 11), windows: Sequence[int] = (2048, 1024, 512)) -> None:
        super().__init__()
        self.periods, self.windows = tuple(periods), tuple(windows)
        widths = (1, 32, 64, 128, 256)
        self.by_period = nn.ModuleList(
            _Stack(
                [
                    *(_conv(a, b, (5, 1), (3, 1)) for a, b in itertools.pairwise(widths)),
                    _conv(256, 256, (5, 1)),
                    _conv(256, 1, (3, 1)),
                ]
            )
            for _ in periods
        )
        self.by_window = nn.ModuleList(
            _Stack(
                [
                    _conv(2, 32, (3, 9)),
                    *(_conv(32, 32, (3, 9), (1, 2)) for _ in range(3)),
                    _conv(32, 32, (3, 3)),
                    _conv(32, 1, (3, 3)),
                ]
            )
            for _ in windows
        )

    def forward(self, x: Tensor) -> list[list[Tensor]]:
        """float32 [B, N], N a multiple of 512 → features of each discriminator."""
        found = []
        for period, stack in zip(self.periods, self.by_period, strict=True):
            folded = F.pad(x, (0, -x.shape[1] % period)).unflatten(1, (-1, period))[:, None]
            found.append(stack(folded.contiguous(memory_format=torch.channels_last)))
        for window, stack in zip(self.windows, self.by_window, strict=True):
            planes = torch.view_as_real(spectra(x, window)).permute(0, 3, 1, 2)  # [B, 2, frames, bins]
            found.append(stack(planes.contiguous(memory_format=torch.channels_last)))
        return found


def hinge_real(features: list[list[Tensor]]) -> Tensor:
    return torch.stack([F.relu(1 - stack[-1].float()).mean() for stack in features]).mean()


def hinge_fake(features: list[list[Tensor]]) -> Tensor:
    return torch.stack([F.relu(1 + stack[-1].float()).mean() for stack in features]).mean()


def feature_distance(made: list[list[Tensor]], real: list[list[Tensor]]) -> Tensor:
    """Mean L1 over layers, each in units of the real feature's size."""
    parts = [
        _distance(a, b.detach())
        for mine, theirs in zip(made, real, strict=True)
        for a, b in zip(mine[:-1], theirs[:-1], strict=True)
    ]
    return torch.stack(parts).mean()


def _distance(made: Tensor, real: Tensor) -> Tensor:
    """Summed in fp32, but without copies in fp32: of features in bf16 they would be most of the bytes that move."""
    apart, size = (torch.linalg.vector_norm(x, 1, dtype=torch.float32) for x in (made - real, real))
    return apart / size.clamp(min=1e-3 * real.numel())
