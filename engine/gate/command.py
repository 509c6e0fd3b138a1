"""`kingfisher gate correctness | performance`: exit status 0 if the gate holds, 1 if not, 2 if it cannot be tried."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    gates = parser.add_subparsers(dest="gate", required=True)
    correctness = gates.add_parser("correctness", help="FP8 against bf16 on fixed inputs")
    correctness.add_argument("--model", default="bundled", help="bundled, or a checkpoint folder")
    correctness.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    correctness.add_argument("--kv-cache", choices=["bf16", "fp8"], default="bf16", help="of the FP8 side, on a GPU")
    correctness.add_argument("--no-listen", action="store_true", help="do not have the words recognised")
    correctness.add_argument("--json", type=Path, help="where to write the figures")
    performance = gates.add_parser("performance", help="decode speed of s2-pro-random against the committed baseline")
    performance.add_argument("--baseline", type=Path, help="another file than loadtest/baselines/h200-s2pro.json")
    performance.add_argument("--write", type=Path, help="measure, with the codec too, and write a new baseline here")
    performance.add_argument("--commit", default="", help="what is measured, for --write")


def run(options: argparse.Namespace) -> int:
    return {"correctness": _correctness, "performance": _performance}[options.gate](options)


def _correctness(options: argparse.Namespace) -> int:
    from rich.console import Console
    from rich.table import Table

    from engine.gate.correctness import PATH_FRAMES, SENTENCES, compare
    from engine.load import BUNDLED_VOICE
    from engine.tokenizer import TokenizerError

    folder = BUNDLED_VOICE if options.model == "bundled" else Path(options.model)
    try:
        report = compare(folder, options.device, listens=not options.no_listen, kv_fp8=options.kv_cache == "fp8")
    except (ValueError, TokenizerError, OSError) as error:
        Console(stderr=True).print(str(error), style="red", markup=False, soft_wrap=True)
        return 2
    console = Console()
    table = Table("sentence", f"frames followed, of {PATH_FRAMES}")
    for text, frames in zip(SENTENCES, report.followed, strict=True):
        table.add_row(text, str(frames))
    console.print(table)
    table = Table("codebook", "KL (nats)", "top-1")
    for row in report.codebooks:
        table.add_row(str(row.codebook), f"{row.kl:.5f}", f"{row.top1:.3f}")
    console.print(table)
    for text, found in zip(SENTENCES, report.differences, strict=True):
        for d in found:
            console.print(f"frame {d.frame}, codebook {d.codebook}: another token, margin {d.margin:.4f}: {text}")
    console.print(f"bf16 rounding changes margins by {report.noise:.4f} at most")
    told = "nobody listened" if report.word_difference is None else f"{report.word_difference:.3f}"
    console.print(f"words that differ: {told}")
    if options.json:
        figures = {
            "followed": report.followed,
            "differences": [[[d.frame, d.codebook, d.margin] for d in found] for found in report.differences],
            "noise": report.noise,
            "kl": [row.kl for row in report.codebooks],
            "top1": [row.top1 for row in report.codebooks],
            "word_difference": report.word_difference,
        }
        options.json.write_text(json.dumps(figures, indent=1) + "\n")
    return _verdict(report.failures())


def _performance(options: argparse.Namespace) -> int:
    from rich.console import Console
    from rich.table import Table

    from engine.gate.performance import BASELINE, judge, measure_all, read_baseline

    if options.write:
        figures = measure_all([1, 4, 16, 64, 128], with_codec=True)
        command = f"kingfisher gate performance --write {options.write.name}"
        options.write.write_text(json.dumps({**figures, "commit": options.commit, "command": command}, indent=1) + "\n")
        Console().print_json(data=figures)
        return 0
    baseline = read_baseline(options.baseline or BASELINE)
    figures = measure_all(sorted(map(int, baseline)))
    verdicts = judge(figures["decode_frames_per_s"], baseline)
    table = Table("batch", "frames/s", "baseline", "ratio", "gate")
    for v in verdicts:
        gate = "-" if not v.is_gated else "holds" if v.has_passed else "fails"
        table.add_row(v.batch, f"{v.frames_per_s:.0f}", f"{v.baseline:.0f}", f"{v.ratio:.3f}", gate)
    Console().print(table)
    return _verdict(
        [
            f"batch {v.batch}: {v.frames_per_s:.0f} frames/s is {v.ratio:.3f} of the baseline"
            for v in verdicts
            if not v.has_passed
        ]
    )


def _verdict(failures: list[str]) -> int:
    from rich.console import Console

    for failure in failures:
        Console().print(failure, style="red")
    Console().print("the gate fails" if failures else "the gate holds")
    return 1 if failures else 0
