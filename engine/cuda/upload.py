"""Checkpoint tensors to the device, in pieces through pinned memory: mapped file -> pinned -> device.

One piece is copied by the host while the one before it crosses the bus, and the host never holds more than the pieces.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from engine.cuda.device import Device
from engine.quant.formats import Quantised

__all__ = ["Uploaded"]

PIECE_BYTES = 32 << 20
PIECES = 2


class Uploaded(Mapping[str, Tensor | Quantised]):
    """The tensors of `source`, which is on the CPU, as copies on the device, made when asked for.

    Copies are queued on `stream`, which must be current where they are used.
    """

    def __init__(
        self,
        source: Mapping[str, Tensor | Quantised],
        device: Device,
        stream: Any,
        *,
        piece_bytes: int = PIECE_BYTES,
    ) -> None:
        self._source, self._device, self._stream, self._piece_bytes = source, device, stream, piece_bytes
        self._pieces = [device.pinned((piece_bytes,), torch.uint8) for _ in range(PIECES)]
        self._crossed: list[Any] = [None] * PIECES
        self._turn = 0

    def __getitem__(self, name: str) -> Tensor | Quantised:
        found = self._source[name]
        if isinstance(found, Quantised):
            return Quantised(self._copy(found.values), self._copy(found.scale), found.grouping)
        return self._copy(found)

    def __iter__(self) -> Iterator[str]:
        return iter(self._source)

    def __len__(self) -> int:
        return len(self._source)

    def _copy(self, tensor: Tensor) -> Tensor:
        made = torch.empty(tensor.shape, dtype=tensor.dtype, device=self._device.torch_device)
        source, target = (t.flatten().view(torch.uint8) for t in (tensor.contiguous(), made))
        for begin in range(0, source.numel(), self._piece_bytes):
            part = source[begin : begin + self._piece_bytes]
            self._turn = (self._turn + 1) % PIECES
            if (crossed := self._crossed[self._turn]) is not None:
                self._device.join(crossed)
            piece = self._pieces[self._turn][: part.numel()]
            piece.copy_(part)
            with self._device.on(self._stream):
                target[begin : begin + part.numel()].copy_(piece, non_blocking=True)
            self._crossed[self._turn] = self._device.record(self._stream)
        return made
