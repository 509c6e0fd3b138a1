"""Values through a pipe between two processes of one server: a length (4 bytes, little-endian), then the pickled value.
Both ends are ours: what comes from outside is text or bytes within a pickle, never a pickle.
"""

from __future__ import annotations

import pickle
from typing import Any

__all__ = ["Unpacker", "pack"]

LENGTH_BYTES = 4


def pack(value: object) -> bytes:
    body = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    return len(body).to_bytes(LENGTH_BYTES, "little") + body


class Unpacker:
    """Puts together what comes in pieces."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def push(self, piece: bytes) -> list[Any]:
        """The values that this piece completes."""
        self._bytes += piece
        values: list[Any] = []
        start = 0
        while len(self._bytes) >= start + LENGTH_BYTES:
            end = start + LENGTH_BYTES + int.from_bytes(self._bytes[start : start + LENGTH_BYTES], "little")
            if len(self._bytes) < end:
                break
            values.append(pickle.loads(self._bytes[start + LENGTH_BYTES : end]))
            start = end
        del self._bytes[:start]
        return values
