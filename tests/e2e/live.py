"""Test ends of the wire: a server process on a free port, and a client that notes what it hears."""

from __future__ import annotations

import asyncio
import json
import queue
import re
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tests.server_process import rss_bytes

ROOT = Path(__file__).parents[2]
DEADLINE_S = 15.0


class Server:
    """`log` holds every line of the process so far. A server with TLS is met with `trust`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.trust: ssl.SSLContext | None = None
        self.log: list[str] = []
        self._address: queue.Queue[int | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.port = 0

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log.append(line)
            if match := re.search(r"(?:live +wss?|on http)://[^ ]*:(\d+)", line):
                self._address.put(int(match[1]))
        self._address.put(None)

    def wait_until_ready(self) -> None:
        port = self._address.get(timeout=DEADLINE_S)
        assert port is not None, f"the server ended: {''.join(self.log)}"
        self.port = port

    def tell(self) -> None:
        """A line on its stdin."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def wait_for_exit(self) -> int:
        code = self.process.wait(DEADLINE_S)
        self._reader.join(DEADLINE_S)
        return code

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join(DEADLINE_S)
        for stream in (self.process.stdin, self.process.stderr):
            assert stream is not None
            stream.close()

    # ---- HTTP ----------------------------------------------------------------------------------------

    def get(self, path: str, headers: dict[str, str] | None = None) -> tuple[int, str, dict[str, str]]:
        secure = "s" if self.trust else ""
        request = urllib.request.Request(f"http{secure}://127.0.0.1:{self.port}{path}", headers=headers or {})
        try:
            with urllib.request.urlopen(request, timeout=DEADLINE_S, context=self.trust) as answer:
                return answer.status, answer.read().decode(), dict(answer.headers)
        except urllib.error.HTTPError as refusal:
            with refusal:
                return refusal.code, refusal.read().decode(), dict(refusal.headers)

    def answers(self) -> bool:
        try:
            return self.get("/healthz")[0] > 0
        except OSError:
            return False

    async def metric(self, name: str) -> float:
        _, text, _ = await asyncio.to_thread(self.get, "/metrics")
        match = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
        return float(match[1]) if match else 0.0

    async def metric_becomes(self, name: str, value: float) -> None:
        """Wait for it; the deadline is generous, as it only ends a failing test."""
        seen = None
        for _ in range(round(DEADLINE_S * 20)):
            if (seen := await self.metric(name)) == value:
                return
            await asyncio.sleep(0.05)
        raise AssertionError(f"{name} is {seen}, not {value}")

    def rss_bytes(self) -> int:
        return rss_bytes(self.process.pid)

    def descriptors(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    # ---- WebSocket -----------------------------------------------------------------------------------

    def url(self, query: str = "") -> str:
        secure = "s" if self.trust else ""
        return f"ws{secure}://127.0.0.1:{self.port}/v1/tts/live" + (f"?{query}" if query else "")

    @asynccontextmanager
    async def caller(self, query: str = "", **options: Any) -> AsyncIterator[Caller]:
        options = {"max_size": None, "open_timeout": DEADLINE_S, "close_timeout": 2.0, "ssl": self.trust} | options
        async with connect(self.url(query), **options) as socket:
            yield Caller(socket)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(**settings: Any) -> Iterator[Server]:
    """A server that is ready; for the settings see tests.e2e.null_server."""
    with started(**settings) as server:
        server.wait_until_ready()
        yield server


@contextmanager
def started(**settings: Any) -> Iterator[Server]:
    """A server process, whether or not it will be ready."""
    command = [sys.executable, "-m", "tests.e2e.null_server", json.dumps(settings)]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    server = Server(process)
    try:
        yield server
    finally:
        server.stop()


@dataclass
class Caller:
    """`heard` are all messages so far."""

    socket: ClientConnection
    heard: list[dict[str, Any]] = field(default_factory=list)

    async def say(self, event: str, **fields: Any) -> None:
        await self.socket.send(msgspec.msgpack.encode({"event": event, **fields}))

    async def start(self, text: str = "", **request: Any) -> None:
        """Without a limit of the lead, if none is given: a test need not wait for playback."""
        await self.say("start", request={"text": text, "max_lead_s": 30.0} | request)

    async def hear(self, *events: str) -> dict[str, Any]:
        """Listen until each of these has come; the last of them. Everything is noted."""
        missing = list(events)
        async with asyncio.timeout(DEADLINE_S):
            while missing:
                frame = await self.socket.recv()
                assert isinstance(frame, bytes)
                self.heard.append(msgspec.msgpack.decode(frame))
                if self.heard[-1]["event"] in missing:
                    missing.remove(self.heard[-1]["event"])
        return self.heard[-1]

    async def closed(self) -> tuple[int, str]:
        """Listen to the end; the close code and reason of the server."""
        with pytest.raises(ConnectionClosed) as end:
            await self.hear("no such event")
        assert end.value.rcvd is not None, "the server closed without a close frame"
        return end.value.rcvd.code, end.value.rcvd.reason

    async def turn(self, text: str, **request: Any) -> list[dict[str, Any]]:
        """Speak one stream; its messages."""
        before = len(self.heard)
        await self.start(**request)
        await self.say("text", text=text)
        await self.say("stop")
        await self.hear("finish")
        return self.heard[before:]


def sound(messages: list[dict[str, Any]]) -> bytes:
    return b"".join(message["audio"] for message in messages if message["event"] == "audio")


def pcm(messages: list[dict[str, Any]]) -> npt.NDArray[np.int16]:
    return np.frombuffer(sound(messages), np.int16)


def tone_hz(samples: npt.NDArray[np.int16], rate_hz: int = 24_000) -> float:
    """The loudest frequency."""
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples))))
    return float(np.argmax(spectrum) * rate_hz / len(samples))


async def all_of(*calls: Awaitable[Any]) -> list[Any]:
    async with asyncio.timeout(DEADLINE_S):
        return list(await asyncio.gather(*calls))


def until(check: Callable[[], bool]) -> None:
    """Wait for something that another process does."""
    deadline_s = time.monotonic() + DEADLINE_S
    while not check():
        assert time.monotonic() < deadline_s, "it did not happen"
        time.sleep(0.02)
