"""The same laws on the device: tensors are made there by default, kernels are compiled by NVRTC."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from engine.cuda.device import CudaDevice
from engine.cuda.kernels import Kernels


@pytest.fixture(scope="session")
def device() -> CudaDevice:
    return CudaDevice()


@pytest.fixture(scope="session")
def kernels(device: CudaDevice) -> Kernels:
    return device.kernels


@pytest.fixture(autouse=True, scope="session")
def on_the_device() -> Iterator[None]:
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
    with torch.device("cuda"):
        yield
