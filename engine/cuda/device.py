"""The device as the backend sees it: streams, events, captured graphs, pinned memory.

A thin skin over torch.cuda, and the seam where the tests put the CPU: `launch now, wait never` becomes `do it now`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch
from torch import Tensor

from engine.cuda.kernels import CudaKernels, Kernels

__all__ = ["CudaDevice", "Device"]

WARM_UP_RUNS = 2
"""Before a capture: compiles kernels, makes cuBLAS choose and allocate."""


class Device(Protocol):
    torch_device: torch.device
    kernels: Kernels

    def stream(self, *, urgent: bool) -> Any: ...

    def on(self, stream: Any) -> AbstractContextManager[Any]: ...

    def record(self, stream: Any) -> Any:
        """An event after everything queued on the stream so far."""
        ...

    def wait(self, stream: Any, event: Any) -> None:
        """What is queued on the stream from now on comes after the event. The host does not wait."""
        ...

    def join(self, event: Any) -> None:
        """The host waits for the event."""
        ...

    def happened(self, event: Any) -> bool:
        """Whether the device has passed the event; does not wait."""
        ...

    def seconds_between(self, first: Any, second: Any) -> float:
        """Device time between two events that have happened."""
        ...

    def capture(self, stream: Any, work: Callable[[], None]) -> Callable[[], None]:
        """Record `work` on the stream as a graph; the answer replays it on the current stream."""
        ...

    def pinned(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor: ...


class CudaDevice:
    """The current CUDA device."""

    def __init__(self) -> None:
        self.torch_device = torch.device("cuda", torch.cuda.current_device())
        major, minor = torch.cuda.get_device_capability()
        # The `a` targets hold the architecture's own instructions; there is none before Hopper.
        self.kernels: Kernels = CudaKernels(f"sm_{major}{minor}{'a' if major >= 9 else ''}")
        self._pool = torch.cuda.graph_pool_handle()

    def stream(self, *, urgent: bool) -> torch.cuda.Stream:
        return torch.cuda.Stream(priority=-1 if urgent else 0)

    def on(self, stream: torch.cuda.Stream) -> AbstractContextManager[Any]:
        return torch.cuda.stream(stream)

    def record(self, stream: torch.cuda.Stream) -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)
        event.record(stream)
        return event

    def wait(self, stream: torch.cuda.Stream, event: torch.cuda.Event) -> None:
        stream.wait_event(event)

    def join(self, event: torch.cuda.Event) -> None:
        event.synchronize()

    def happened(self, event: torch.cuda.Event) -> bool:
        return event.query()

    def seconds_between(self, first: torch.cuda.Event, second: torch.cuda.Event) -> float:
        return first.elapsed_time(second) / 1000

    def capture(self, stream: torch.cuda.Stream, work: Callable[[], None]) -> Callable[[], None]:
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP_RUNS):
                work()
            stream.synchronize()
            graph = torch.cuda.CUDAGraph()
            # thread_local: another thread may launch while this one captures.
            with torch.cuda.graph(graph, pool=self._pool, stream=stream, capture_error_mode="thread_local"):
                work()
        return graph.replay

    def pinned(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        return torch.zeros(shape, dtype=dtype, device="cpu", pin_memory=True)
