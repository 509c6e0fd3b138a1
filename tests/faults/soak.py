"""Churn for as long as you like: python -m tests.faults.soak --minutes 30 [--model null|bundled] [--good 8] [--bad 4]

Starts a server of its own. Good callers hold turn after turn, interrupt one in ten, and leave at random; bad ones send
garbage, break the protocol, reset, stop reading, stay silent or come without the key. Every ten seconds a line tells
memory, slots and counts. The end is a verdict: no error for the good ones, memory flat after the first quarter, no slot
lost.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import socket
import statistics
import struct
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from kingfisher_client import AsyncClient, Audio, Cancelled, Finish, Flushed, KingfisherError
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from tests.server_process import ServerProcess, server_process

KEY = "soak-key"
SENTENCES = (
    "Thank you for calling, how can I help you today?",
    "Your order will arrive on Friday morning.",
    "Please wait a moment while I look that up.",
    "I can move your appointment to the afternoon, if that suits you better.",
    "Yes.",
)
REPORT_S = 10.0
MAX_GROWTH_BYTES = 48 << 20
LONG = "A long story that nobody reads. " * 200


@dataclass
class Soak:
    server: ServerProcess
    until_s: float
    chance: random.Random
    counts: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    rss_bytes: list[int] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.until_s

    # ---- good callers ----------------------------------------------------------------------------------

    async def good(self) -> None:
        while not self.is_over:
            try:
                async with AsyncClient(self.server.ws, api_key=KEY) as client:
                    for _ in range(self.chance.randrange(1, 8)):
                        if self.is_over:
                            return
                        await self._turn(client)
            except KingfisherError as error:
                self.errors.append(f"{type(error).__name__}: {error}")

    async def _turn(self, client: AsyncClient) -> None:
        interrupts, leaves = self.chance.random() < 0.1, self.chance.random() < 0.05
        text = " ".join(self.chance.choices(SENTENCES, k=self.chance.randrange(1, 4)))
        audio_format = self.chance.choice(["pcm", "opus_packets", "opus", "wav"])
        async with client.stream(format=audio_format, max_lead_s=1.0) as stream:
            await stream.send_text(text)
            await (stream.flush() if interrupts else stream.stop())
            heard = 0
            async for event in stream:
                heard += isinstance(event, Audio)
                if leaves and heard == 2:
                    self.counts["left in mid-turn"] += 1
                    return
                if interrupts and isinstance(event, Flushed):  # too short to be interrupted
                    interrupts = False
                    await stream.stop()
                elif interrupts and heard == 2:
                    interrupts = False
                    await stream.cancel()
                    await stream.send_text("Sorry, go on.")
                    await stream.stop()
                self.counts["interrupted"] += isinstance(event, Cancelled)
                self.counts["turns"] += isinstance(event, Finish)

    # ---- bad ones --------------------------------------------------------------------------------------

    async def bad(self) -> None:
        kinds = (self._garbage, self._reset, self._deaf, self._silent, self._keyless, self._flood)
        while not self.is_over:
            kind = self.chance.choice(kinds)
            with suppress(OSError, WebSocketException, TimeoutError):
                async with asyncio.timeout(30):
                    await kind()
            self.counts[kind.__name__.strip("_")] += 1
            await asyncio.sleep(self.chance.random())

    async def _garbage(self) -> None:
        async with connect(f"{self.server.ws}?api_key={KEY}") as socket_:
            await socket_.send(self.chance.randbytes(self.chance.randrange(1, 4_000)))
            async for _ in socket_:
                pass

    async def _reset(self) -> None:
        async with connect(f"{self.server.ws}?api_key={KEY}", close_timeout=0) as socket_:
            await socket_.send(msgspec.msgpack.encode({"event": "start", "request": {"text": LONG, "max_lead_s": 1.0}}))
            for _ in range(self.chance.randrange(6)):
                await socket_.recv()
            raw = socket_.transport.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            socket_.transport.abort()

    async def _deaf(self) -> None:
        """Asks for much and reads nothing, until the server has had enough."""
        async with connect(f"{self.server.ws}?api_key={KEY}", close_timeout=0, max_queue=1) as socket_:
            request = {"text": LONG, "format": "pcm", "sample_rate": 48_000, "max_lead_s": 30.0}
            await socket_.send(msgspec.msgpack.encode({"event": "start", "request": request}))
            socket_.transport.pause_reading()
            await asyncio.sleep(8)
            socket_.transport.abort()

    async def _silent(self) -> None:
        """Connects and says nothing, or half a request."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port)
        writer.write(self.chance.choice([b"", b"GET /v1/tts/live HTTP/1.1\r\nHost: x\r\n"]))
        await reader.read()
        writer.close()

    async def _keyless(self) -> None:
        async with connect(self.server.ws):
            pass

    async def _flood(self) -> None:
        async with connect(f"{self.server.ws}?api_key={KEY}") as socket_:
            for _ in range(2_000):
                await socket_.send(msgspec.msgpack.encode({"event": "start", "request": {"seed": -1}}))
                await asyncio.sleep(0)  # the good callers live in this loop too
            for _ in range(2_000):
                await socket_.recv()

    # ---- the watch -------------------------------------------------------------------------------------

    async def watch(self) -> None:
        while not self.is_over:
            await asyncio.sleep(REPORT_S)
            self.rss_bytes.append(self.server.rss_bytes)
            used = await asyncio.to_thread(self.server.metric, "kingfisher_slots_used")
            line = {"rss_mib": self.rss_bytes[-1] >> 20, "slots_used": used, "errors": len(self.errors)} | self.counts
            print(json.dumps(line), flush=True)

    async def run(self, good: int, bad: int) -> int:
        callers = [self.good() for _ in range(good)] + [self.bad() for _ in range(bad)]
        await asyncio.gather(*callers, self.watch())
        for _ in range(100):
            if not (used := await asyncio.to_thread(self.server.metric, "kingfisher_slots_used")):
                break
            await asyncio.sleep(0.1)
        quarter = max(1, len(self.rss_bytes) // 4)
        growth = statistics.median(self.rss_bytes[-quarter:]) - statistics.median(self.rss_bytes[quarter : 2 * quarter])
        traceback = "Traceback" in self.server.log
        verdict = {
            "turns": self.counts["turns"], "interrupted": self.counts["interrupted"], "errors": self.errors[:5],
            "growth_mib": round(growth / (1 << 20), 1), "slots_used": used, "traceback_in_log": traceback,
        }  # fmt: skip
        is_good = not self.errors and not used and growth < MAX_GROWTH_BYTES and not traceback
        print(json.dumps(verdict | {"is_good": is_good}))
        if not is_good:
            print(self.server.log[-20_000:])
        return 0 if is_good else 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--model", default="null")
    parser.add_argument("--slots", type=int, default=8)
    parser.add_argument("--good", type=int, default=8)
    parser.add_argument("--bad", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        keys = Path(folder) / "keys"
        keys.write_text(f"{KEY}\n")
        settings = ["--model", options.model, "--slots", str(options.slots), "--stall-s", "3", "--queue-s", "30"]
        with server_process(*settings, "--api-keys-file", str(keys)) as server:
            until_s = time.monotonic() + options.minutes * 60
            soak = Soak(server, until_s, random.Random(options.seed))
            return asyncio.run(soak.run(options.good, options.bad))


if __name__ == "__main__":
    raise SystemExit(main())
