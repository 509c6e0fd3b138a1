"""The streaming codec on `s2-pro-random`: whole calls by (rows, frames), and each large convolution by tile.

    python -m loadtest.micro.codec

Whole calls are graph replays, median of 15; TFLOP/s count 6.764 GFLOP a frame. Convolutions run 128 frames at once.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from engine.codec.config import CodecConfig
from engine.cuda.codec import CodecChain
from engine.cuda.codec_weights import CodecWeights
from engine.cuda.conv import ConvWeight, Grid, Rows, Tile, Workspace, choose_grid, conv
from engine.cuda.device import CudaDevice
from engine.cuda.random_model import S2_PRO, random_codec
from engine.cuda.slot_state import SlotState
from loadtest.micro.gemm import timed

GFLOP_PER_FRAME = 6.764
CALLS = ((1, 1), (1, 2), (1, 4), (4, 1), (16, 1), (16, 2), (64, 1), (64, 2), (64, 4), (128, 2))
CELLS = 256
# (channels, outputs, taps, steps per frame): what the decoder blocks do.
CONVS = (
    (1536, 6144, 2, 4),
    (768, 768, 7, 32),
    (768, 768, 1, 32),
    (768, 3072, 2, 32),
    (384, 384, 7, 256),
    (384, 384, 1, 256),
    (384, 768, 2, 256),
    (192, 192, 7, 1024),
    (192, 192, 1, 1024),
    (192, 192, 2, 1024),
    (96, 96, 7, 2048),
    (96, 96, 1, 2048),
)
TILES = (
    Tile(128, 128, 32, 4, 2, 2),
    Tile(128, 128, 32, 4, 2, 4),
    Tile(128, 128, 64, 3, 2, 4),
    Tile(128, 128, 64, 3, 2, 2),
    Tile(128, 96, 32, 4, 4, 1),
    Tile(128, 96, 32, 4, 2, 2),
    Tile(128, 192, 32, 5, 2, 4),
    Tile(128, 64, 64, 4, 2, 2),
    Tile(128, 64, 64, 4, 8, 1, warpgroups=True),
    Tile(128, 96, 64, 4, 8, 1, warpgroups=True),
    Tile(128, 96, 64, 3, 8, 1, warpgroups=True),
    Tile(128, 128, 64, 3, 8, 1, warpgroups=True),
    Tile(128, 192, 64, 5, 8, 1, warpgroups=True),
)


def time_calls(kernels) -> list[dict[str, float]]:
    device = torch.device("cuda")
    config = CodecConfig.s2()
    weights = CodecWeights.build(config, random_codec(config, device), device)
    slots = SlotState.fresh(S2_PRO, 128, device)
    slots.frames.fill_(1 << 20)
    chain = CodecChain(kernels, weights, slots, max_rows=128, max_frames=8, max_cells=CELLS)
    found = []
    for rows, frames in CALLS:
        plan = torch.zeros((rows, 4), dtype=torch.int32, device=device)
        plan[:, 0] = torch.arange(rows)
        plan[:, 2] = frames
        us = timed(partial(chain.run, plan, frames))
        parts = {
            "transformer": partial(chain._transformer, plan, rows, frames),
            "upsample": partial(chain._upsample, chain._token_buffer("normed", rows, frames), rows, frames),
            "decode": partial(chain._decode, rows, frames),
        }
        split = {name: timed(work) for name, work in parts.items()}
        tflops = 1000 * rows * frames * GFLOP_PER_FRAME / us
        found.append({"rows": rows, "frames": frames, "us": us, "tflops": tflops, **split})
        print(
            f"codec R={rows:4d} F={frames}  {us / 1000:7.3f} ms  {tflops:6.1f} TFLOP/s  "
            + "  ".join(f"{name} {part:.0f} us" for name, part in split.items()),
            flush=True,
        )
    return found


def time_convs(kernels) -> list[dict[str, object]]:
    device, frames, found = torch.device("cuda"), 128, []
    for channels, outputs, taps, rate in CONVS:
        rows, steps = 64, frames // 64 * rate
        x = Rows(torch.randn(rows, taps - 1 + steps, channels, device=device).half(), taps - 1)
        weight = ConvWeight((torch.randn(outputs, taps * channels, device=device) * 0.02).half(), None, taps)
        out = Rows(torch.empty(rows, steps, outputs, device=device, dtype=torch.float16), 0)
        alpha = torch.ones(outputs, device=device)
        m = rows * steps
        gflop = 2 * m * outputs * taps * channels / 1e9
        line, best = [], ""
        for tile in TILES:
            if outputs % tile.n and outputs % tile.n < tile.n // 2:
                continue
            grid = Grid(tile, -(-outputs // tile.n), -(-m // tile.m), 1)
            workspace = Workspace.empty(1, device)

            call = partial(conv, kernels, x, weight, workspace, out=out, snake=(out, alpha), grid=grid)

            def work(call: Callable[[], object] = call) -> None:
                for _ in range(4):
                    call()

            us = timed(work) / 4
            found.append({"conv": (channels, outputs, taps, rate), "tile": repr(tile), "us": us})
            line.append(
                (us, f"{tile.m}x{tile.n}x{tile.k}/{tile.stages} {tile.warps_m}x{tile.warps_n}{'w' * tile.warpgroups}")
            )
        line.sort()
        best = "  ".join(f"{name} {gflop / us * 1000:.0f}" for us, name in line[:5])
        chosen = choose_grid(m, outputs, taps * channels, warpgroups=kernels.has_warpgroups).tile
        print(
            f"conv C={channels} N={outputs} taps={taps}: {line[0][0]:7.1f} us | TFLOP/s {best} "
            f"| chosen {chosen.m}x{chosen.n}"
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--no-convs", action="store_true")
    options = parser.parse_args()
    kernels = CudaDevice().kernels
    results = {"calls": time_calls(kernels), "convs": [] if options.no_convs else time_convs(kernels)}
    if options.out:
        options.out.write_text(json.dumps(results))


if __name__ == "__main__":
    main()
