"""Small reads, with a transport made by hand: who sends much waits for its turn, and what is kept is bounded."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from realtime.server.frames import MAX_FRAGMENTS, MAX_UNSENT_BYTES, READ_BYTES, SmallReads


class Transport:
    def __init__(self) -> None:
        self.is_reading, self.is_over, self.unsent = True, False, 0

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def abort(self) -> None:
        self.is_over = True

    def is_closing(self) -> bool:
        return self.is_over


class Inner:
    """As much of uvicorn's protocol as there is to see."""

    def __init__(self) -> None:
        self.took: list[bytes] = []
        self.frames: list[bytes] = []
        self.read_paused = self.close_sent = False
        self.failed: list[int] = []
        self.conn = SimpleNamespace(fail=lambda code, reason: self.failed.append(code))

    def data_received(self, data: bytes) -> None:
        self.took.append(data)

    def handle_parser_exception(self) -> None:
        self.close_sent = True


def made() -> tuple[SmallReads, Any, Any]:
    inner, transport = Inner(), Transport()
    return SmallReads(inner, transport, 100), inner, transport  # type: ignore[arg-type]


def put(reads: SmallReads, data: bytes) -> None:
    reads.get_buffer(1 << 18)[: len(data)] = data
    reads.buffer_updated(len(data))


async def test_what_comes_is_passed_on_and_a_short_read_stops_nothing() -> None:
    reads, inner, transport = made()
    put(reads, b"abc")
    put(reads, b"d")
    assert inner.took == [b"abc", b"d"]
    assert transport.is_reading


async def test_after_a_full_read_it_is_the_others_turn() -> None:
    reads, inner, transport = made()
    assert len(reads.get_buffer(1 << 18)) == READ_BYTES
    put(reads, bytes(READ_BYTES))
    assert inner.took == [bytes(READ_BYTES)]
    assert not transport.is_reading
    await asyncio.sleep(0)
    assert transport.is_reading


async def test_an_application_that_is_behind_is_not_fed() -> None:
    reads, inner, transport = made()
    inner.read_paused = True
    put(reads, bytes(READ_BYTES))
    await asyncio.sleep(0)
    assert not transport.is_reading


async def test_fragments_of_nothing_are_bounded() -> None:
    reads, inner, _ = made()
    inner.frames = [b""] * MAX_FRAGMENTS
    put(reads, b"x")
    assert not inner.close_sent
    inner.frames.append(b"")
    put(reads, b"x")
    assert (inner.failed, inner.close_sent) == ([1009], True)
    put(reads, b"x")
    assert inner.failed == [1009], "it fails once"


async def test_answers_that_nobody_reads_are_bounded() -> None:
    reads, _, transport = made()
    transport.unsent = 100 + MAX_UNSENT_BYTES
    put(reads, b"x")
    assert not transport.is_over
    transport.unsent += 1
    put(reads, b"x")
    assert transport.is_over
