"""A server whose standard input, output or error were closed by whoever started it."""

from __future__ import annotations

from pathlib import Path

import pytest
from kingfisher_client import AsyncClient

from tests.server_process import children_of, server_process


def target_of(process: int, descriptor: int) -> str:
    return str(Path(f"/proc/{process}/fd/{descriptor}").readlink())


@pytest.mark.parametrize("closed", [(0,), (1, 2), (0, 1, 2)])
async def test_closed_standard_descriptors_are_nobodys_socket(closed: tuple[int, ...]) -> None:
    with server_process("--model", "null", "--workers", "1", closed=closed) as server:
        async with AsyncClient(server.ws) as client:
            sound = b"".join([audio.data async for audio in client.speak("Hello there.", format="pcm")])
        assert any(sound)
        (encoder,) = children_of(server.process.pid)
        for process, numbers in ((server.process.pid, closed), (encoder, set(closed) - {0})):  # its 0 is its work
            for number in numbers:
                assert target_of(process, number) == "/dev/null"
