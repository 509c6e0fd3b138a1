"""Reported faults that only a GPU shows (tests/FAULTS.md): its memory over many turns, cold starts, FP8 at every size.

python3 -m pytest -c tests/gpu/pytest.ini --rootdir=. tests/gpu/test_gpu_faults.py
"""

from __future__ import annotations

import asyncio
import base64
import http.client
import io
import json
import time
import wave
from pathlib import Path
from statistics import median

import numpy as np
import pytest
import torch

from engine.api import Codes
from engine.cuda.kernels import Kernels
from engine.cuda.load import RESERVE_BYTES
from engine.load import BUNDLED_VOICE, load_engine
from realtime.voices.clips import ClipCache
from realtime.voices.folder import Folder
from tests.faults.churn import Churn
from tests.server_process import ServerProcess, server_process
from tests.unit.csrc.test_csrc_linear import ODD_ROWS, assert_near, fp8_and_bf16

pytestmark = pytest.mark.gpu

# ---- 85: memory ------------------------------------------------------------------------------------------------------

SLOTS, TURNS = 16, 2_000
"""Some eight hours of speech; the cache of voice prefixes is full after the first three hundred turns."""
MAX_GROWTH_BYTES = 5 << 20


def test_fault_85_memory_is_flat_over_thousands_of_turns() -> None:
    with torch.device("cpu"):
        engine = load_engine(BUNDLED_VOICE, device="cuda", slots=SLOTS)
        engine.warm_up()
        reserved_bytes = torch.cuda.memory_reserved()
        allocated: list[int] = []
        Churn(engine).run(TURNS, after_each=lambda: allocated.append(torch.cuda.memory_allocated()))
    first, second = allocated[: TURNS // 2], allocated[TURNS // 2 :]
    growth = max(second) - max(first)
    peak = torch.cuda.max_memory_reserved()
    print(f"allocated {max(first)} bytes in the first half, {growth:+d} in the second")
    print(f"reserved {reserved_bytes} bytes when ready, {peak} at most")
    assert growth < MAX_GROWTH_BYTES
    assert peak <= reserved_bytes + RESERVE_BYTES
    assert torch.cuda.memory_stats()["num_alloc_retries"] == 0
    engine.close()


# ---- 91: cold starts -------------------------------------------------------------------------------------------------

STARTS, REQUESTS = 10, 20
SLOWEST_FIRST = 1.5
"""Times the median of the requests from the fifth on."""
CLIP_RATE_HZ = 24_000


def clip(number: int) -> bytes:
    """A WAV file of a second, another for each number."""
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(CLIP_RATE_HZ)
        out.writeframes(np.random.default_rng(number).integers(-9_000, 9_000, CLIP_RATE_HZ).astype("<i2").tobytes())
    return file.getvalue()


def store_codes(home: Path) -> None:
    """The clips' codes, as if they had been encoded in an earlier life: a bare GPU image has no audio-file library.
    Each voice is new to the engine all the same."""
    known = np.load(next(BUNDLED_VOICE.glob("voices/*/codes.npy"))).astype(np.int16)
    cache = ClipCache(Folder(home / "clips", ".codes"), len(known), "bundled", lambda _: True)

    async def store() -> None:
        for number in range(REQUESTS):

            async def encoded(_: str, number: int = number) -> Codes:
                return np.roll(known, number + 1, axis=1)

            await cache.voice(clip(number), "", encoded)

    asyncio.run(store())


def first_sound_s(server: ServerProcess, number: int) -> float:
    """From a request with its own clip to the first byte of its sound."""
    reference = {"audio": base64.b64encode(clip(number)).decode(), "text": ""}
    body = json.dumps({"text": "Hello there, my friend.", "format": "pcm", "references": [reference]})
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    began_s = time.monotonic()
    connection.request("POST", "/v1/tts", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()
    assert answer.read(1)
    took_s = time.monotonic() - began_s
    answer.read()
    connection.close()
    return took_s


@pytest.mark.parametrize("number", range(STARTS))
def test_fault_91_the_first_request_after_a_cold_start_is_as_fast_as_any(tmp_path: Path, number: int) -> None:
    store_codes(tmp_path)
    with server_process("--device", "cuda", environment={"KINGFISHER_VOICES_DIR": str(tmp_path)}) as server:
        first, *rest = [first_sound_s(server, request) for request in range(REQUESTS)]
    usual = median(rest[3:])
    print(f"start {number}: first {first * 1000:.1f} ms, median of the later ones {usual * 1000:.1f} ms")
    assert first <= SLOWEST_FIRST * usual


# ---- 96: FP8 ---------------------------------------------------------------------------------------------------------

S2_PRO_PRODUCTS = {"wqkv": (6_144, 2_560), "wo": (2_560, 4_096), "gate_up": (19_456, 2_560), "down": (2_560, 9_728)}


@pytest.mark.parametrize("rows", ODD_ROWS)
@pytest.mark.parametrize("product", S2_PRO_PRODUCTS)
def test_fault_96_the_products_of_a_big_model_in_fp8_are_near_those_in_bf16(
    kernels: Kernels, product: str, rows: int
) -> None:
    assert_near(*fp8_and_bf16(kernels, rows, *S2_PRO_PRODUCTS[product]))
