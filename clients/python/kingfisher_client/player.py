"""Sound aloud, with a record of how much of it was heard: what an interruption needs to know."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import Protocol

from kingfisher_client.errors import KingfisherError

__all__ = ["Device", "Player", "SoundDevice"]

BYTES_A_SAMPLE = 2
Fill = Callable[[int], bytes]


class Device(Protocol):
    """What plays s16le mono."""

    @property
    def latency_s(self) -> float:
        """From a sample's being taken to its being heard."""

    def start(self, fill: Fill) -> None:
        """From now on take `fill(bytes)` whenever sound is due, from any thread."""

    def close(self) -> None: ...


class SoundDevice:
    """The default sound device. Raises KingfisherError where sounddevice, PortAudio or a device is missing."""

    def __init__(self, rate_hz: int) -> None:
        try:
            import sounddevice
        except (ImportError, OSError) as error:
            raise KingfisherError(
                "playing needs sounddevice (pip install sounddevice) and PortAudio (Debian: "
                "apt-get install libportaudio2)"
            ) from error
        self._rate_hz, self._module = rate_hz, sounddevice
        self._fill: Fill = bytes

    @property
    def latency_s(self) -> float:
        return float(self._stream.latency)

    def start(self, fill: Fill) -> None:
        self._fill = fill
        try:
            self._stream = self._module.RawOutputStream(
                samplerate=self._rate_hz, channels=1, dtype="int16", callback=self._take
            )
            self._stream.start()
        except self._module.PortAudioError as error:
            raise KingfisherError(f"no sound device can play at {self._rate_hz} Hz: {error}") from error

    def close(self) -> None:
        self._stream.stop()
        self._stream.close()

    def _take(self, out: memoryview, frames: int, time: object, status: object) -> None:
        out[:] = self._fill(frames * BYTES_A_SAMPLE)


class Player:
    """s16le mono -> a device. Made and used on one event loop; the device takes from a thread of its own."""

    def __init__(self, rate_hz: int = 24_000, *, device: Device | None = None, max_queued_s: float = 1.0) -> None:
        """`device`: the default sound device, which needs sounddevice. Raises KingfisherError."""
        self.rate_hz = rate_hz
        self._device = SoundDevice(rate_hz) if device is None else device
        self._max_queued = int(max_queued_s * rate_hz) * BYTES_A_SAMPLE
        self._lock = threading.Lock()
        self._queue: deque[bytes] = deque()
        self._queued = self._before = self._taken = 0
        """Bytes: in the queue, of earlier turns among them, of the current turn taken by the device."""
        self._turn = 0
        self._moved = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._device.start(self._fill)

    def begin(self) -> None:
        """A new turn: what is heard counts from its first sound. Earlier sound plays to its end."""
        with self._lock:
            self._turn += 1
            self._before, self._taken = self._queued, 0

    async def push(self, pcm: bytes) -> None:
        """Waits while a second of sound is queued. What an interruption overtakes is dropped."""
        turn = self._turn
        while self._queued >= self._max_queued:
            self._moved.clear()
            await self._moved.wait()
        with self._lock:
            if turn == self._turn and pcm:
                self._queue.append(pcm)
                self._queued += len(pcm)

    def heard_ms(self) -> float:
        """Of the current turn's sound; what the device holds is not heard yet."""
        taken_ms = self._taken / BYTES_A_SAMPLE / self.rate_hz * 1000
        return max(0.0, taken_ms - self._device.latency_s * 1000)

    def interrupt(self) -> float:
        """Silence but for what the device holds. Returns the milliseconds of the turn that were heard."""
        with self._lock:
            heard_ms = self.heard_ms()
            self._queue.clear()
            self._queued = self._before = self._taken = 0
            self._turn += 1
        self._moved.set()
        return heard_ms

    async def drained(self) -> None:
        """All that was pushed was heard."""
        while self._queued:
            self._moved.clear()
            await self._moved.wait()
        await asyncio.sleep(self._device.latency_s)

    def close(self) -> None:
        """Let go of the device."""
        self._device.close()

    def _fill(self, wanted: int) -> bytes:
        """In the device's thread: so many bytes, silence where there is no sound."""
        taken = bytearray()
        with self._lock:
            while self._queue and len(taken) < wanted:
                piece = self._queue.popleft()
                room = wanted - len(taken)
                taken += piece[:room]
                if piece[room:]:
                    self._queue.appendleft(piece[room:])
            self._queued -= len(taken)
            of_before = min(self._before, len(taken))
            self._before -= of_before
            self._taken += len(taken) - of_before
        if taken and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._moved.set)
        return bytes(taken.ljust(wanted, b"\0"))
