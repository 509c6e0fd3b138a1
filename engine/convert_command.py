"""`kingfisher convert MODEL OUT --scheme channels`."""

from __future__ import annotations

import argparse
from pathlib import Path

from engine.config import FP8_SCHEMES

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", type=Path, help="a checkpoint folder")
    parser.add_argument("out", type=Path, help="the folder to make")
    parser.add_argument(
        "--scheme",
        choices=FP8_SCHEMES,
        default=FP8_SCHEMES[0],
        help="what shares a scale: output channels, 128 x 128 blocks (bsgemm), 32 values along K (mxfp8)",
    )


def run(options: argparse.Namespace) -> int:
    """Prints the sizes. Exit status 1, and why, where the checkpoint cannot be converted."""
    from rich.console import Console

    from engine.convert import convert  # torch is heavy: only when it is wanted
    from engine.tokenizer import TokenizerError

    try:
        convert(options.model, options.out, options.scheme)
    except (ValueError, TokenizerError, OSError) as error:
        Console(stderr=True).print(str(error), style="red", markup=False, soft_wrap=True)
        return 1
    before, after = (_model_bytes(folder) for folder in (options.model, options.out))
    Console().print(f"{options.out}: {after / 1e6:.1f} MB of weights, {before / 1e6:.1f} before", soft_wrap=True)
    return 0


def _model_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for pattern in ("model*.safetensors", "model.pth") for path in folder.glob(pattern))
