"""Start of a full-size server from a converted checkpoint, as an operator sees it.

    python -m loadtest.micro.start --out start.json

Writes an S2-Pro checkpoint with seeded random weights in bf16, has `kingfisher convert` make its FP8 form, and starts
`kingfisher serve` on that twice: with no compiled kernels at hand, and again. A start lasts from the process's to the
first 200 of /readyz. Memory is the most a process had resident, mapped files included. Needs a GPU and 30 GB of disk.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from safetensors.torch import save_file

from engine.codec.config import CodecConfig
from engine.cuda.random_model import S2_PRO, S2_PRO_CONFIG, random_codec, random_model, write_random_tokenizer
from engine.quant.files import write_tensors

MOST_S = 240


def write_checkpoint(folder: Path, device: torch.device) -> None:
    """config.json, tokenizer, model and codec; weights in bf16, the codec's in fp32 as the published one's."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(S2_PRO_CONFIG))
    write_random_tokenizer(folder)
    model = random_model(S2_PRO, device)
    write_tensors(folder, _Moved(model))
    codec = random_codec(CodecConfig.s2(), device)
    save_file({name: codec[name].cpu() for name in codec}, folder / "codec.safetensors")


class _Moved(dict[str, torch.Tensor]):
    """Tensors by name, drawn when asked for, as bf16 on the CPU."""

    def __init__(self, tensors: Any) -> None:
        super().__init__(dict.fromkeys(tensors))
        self._tensors = tensors

    def __getitem__(self, name: str) -> torch.Tensor:
        drawn: torch.Tensor = self._tensors[name]
        return drawn.bfloat16().cpu()


def convert(folder: Path, out: Path) -> dict[str, float]:
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "realtime", "convert", str(folder), str(out)])
    _, status, used = os.wait4(process.pid, 0)
    assert status == 0, "convert failed"
    bytes_written = sum(path.stat().st_size for path in out.glob("model*.safetensors"))
    return {
        "seconds": time.perf_counter() - began,
        "resident_gib": used.ru_maxrss / 2**20,
        "file_gib": bytes_written / 2**30,
    }


def start(folder: Path, slots: int, port: int, cache: Path) -> dict[str, float]:
    """Raises RuntimeError for a server that does not get ready."""
    command = ["serve", "--model", str(folder), "--device", "cuda", "--slots", str(slots), "--host", "127.0.0.1"]
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "realtime", *command, "--port", str(port)],
        env={**os.environ, "XDG_CACHE_HOME": str(cache)},
    )
    try:
        while not _is_ready(port):
            if process.poll() is not None or time.perf_counter() - began > MOST_S:
                raise RuntimeError(f"the server was not ready after {time.perf_counter() - began:.0f} s")
            time.sleep(0.1)
        seconds = time.perf_counter() - began
    except BaseException:
        process.kill()
        raise
    process.send_signal(signal.SIGTERM)
    _, _, used = os.wait4(process.pid, 0)
    return {"seconds": seconds, "resident_gib": used.ru_maxrss / 2**20}


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=1) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slots", type=int, default=128)
    parser.add_argument("--port", type=int, default=8124)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with TemporaryDirectory() as home:
        plain, converted = Path(home) / "bf16", Path(home) / "fp8"
        write_checkpoint(plain, torch.device("cuda"))
        torch.cuda.empty_cache()
        results: dict[str, Any] = {"device": torch.cuda.get_device_name(), "slots": options.slots}
        results["convert"] = convert(plain, converted)
        print("convert", results["convert"], flush=True)
        cache = Path(home) / "cache"
        for name in ("start_compiling", "start"):
            results[name] = start(converted, options.slots, options.port, cache)
            print(name, results[name], flush=True)
    if options.out:
        options.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
