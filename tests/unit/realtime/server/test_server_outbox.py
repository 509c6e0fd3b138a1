"""The outbox: in order, bounded in bytes, bounded in time."""

from __future__ import annotations

import asyncio
import time

import pytest

from realtime.server.outbox import ClientTooSlow, Outbox


class Peer:
    """Takes frames only while its gate is open."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def send(self, frame: bytes) -> None:
        await self.gate.wait()
        self.got.append(frame)


async def test_frames_go_out_in_order_and_before_the_close() -> None:
    peer, outbox = Peer(), Outbox(max_bytes=100, stall_s=5.0)
    outbox.put([b"one", b"two"])
    outbox.close(1000, "done")
    outbox.put([b"three"])
    assert await outbox.run(peer.send) == (1000, "done")
    assert peer.got == [b"one", b"two", b"three"]


async def test_what_comes_later_wakes_the_sender() -> None:
    outbox = Outbox(max_bytes=100, stall_s=5.0)
    sent: asyncio.Queue[bytes] = asyncio.Queue()
    async with asyncio.timeout(5):
        sender = asyncio.create_task(outbox.run(sent.put))
        for frame in (b"one", b"two"):
            outbox.put([frame])
            assert await sent.get() == frame
        outbox.close(1000, "done")
        await sender


async def test_the_first_close_counts() -> None:
    outbox = Outbox(max_bytes=100, stall_s=5.0)
    outbox.close(1011, "first")
    outbox.close(1000, "second")
    assert await outbox.run(Peer().send) == (1011, "first")


async def test_the_bound_counts_what_was_not_sent() -> None:
    peer, outbox = Peer(), Outbox(max_bytes=10, stall_s=5.0)
    for _ in range(5):
        outbox.put([bytes(10)])
        outbox.close(1000, "")
        await outbox.run(peer.send)
    with pytest.raises(ClientTooSlow, match="11 bytes"):
        outbox.put([bytes(10), b"x"])


async def test_a_send_that_does_not_come_through_is_given_up() -> None:
    peer, outbox = Peer(), Outbox(max_bytes=100, stall_s=5.0)
    peer.gate.clear()
    outbox.put([b"one"])
    began_s = time.monotonic()
    sender = asyncio.create_task(outbox.run(peer.send))
    await asyncio.sleep(0)  # it is sending now
    outbox.check(began_s + 5.0)
    with pytest.raises(ClientTooSlow, match="5 s"):
        outbox.check(time.monotonic() + 5.1)
    peer.gate.set()
    outbox.close(1000, "done")
    await sender
    outbox.check(time.monotonic() + 1e9)  # nothing waits


async def test_what_the_send_raises_comes_out() -> None:
    async def broken(frame: bytes) -> None:
        raise OSError("gone")

    outbox = Outbox(max_bytes=100, stall_s=5.0)
    outbox.put([b"one"])
    with pytest.raises(OSError, match="gone"):
        await outbox.run(broken)
