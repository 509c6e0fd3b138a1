"""The load test's command: a sweep over levels of load, as a table, a JSON document and a picture.

* `open` (default): turns begin by a seeded Poisson process of `--load` turns a second, whatever became of earlier ones,
  and are timed from when they were due.
* `talkers`: `--load` callers who each hear a turn to its end and begin the next after a short random pause.
* `closed`: the next turn begins when the last byte came; only for comparison with published closed-loop tables.
* `burst`: `--load` turns within 100 ms.
* `churn`: `--load` callers who interrupt every turn.

A run whose own starts were late (p99 over 5 ms) is marked invalid: the load generator, not the server, was measured.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from loadtest.callers import run_level
from loadtest.report import environment, print_table, summarise, summarise_interruptions
from loadtest.texts import sentences

__all__ = ["add_arguments", "run"]

MODES = {
    "open": "turns a second",
    "talkers": "talkers",
    "closed": "callers",
    "burst": "turns at once",
    "churn": "callers",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = __doc__
    parser.add_argument("--url", default="ws://127.0.0.1:8000/v1/tts/live")
    parser.add_argument("--mode", choices=MODES, default="open")
    parser.add_argument("-n", "--load", type=float, nargs="+", default=[1.0], help="levels: turns a second, or callers")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--repeat", type=int, default=1, help="each level so many times: how far equal runs differ")
    parser.add_argument("--ramp-s", type=float, default=2.0, help="first turns start spread over this time")
    parser.add_argument("--warm-sockets", type=int, default=8, help="open and burst: connected beforehand, a process")
    parser.add_argument("--format", default="opus_packets")
    parser.add_argument("--voice", default=None, help="one for all: hot")
    parser.add_argument("--voices", nargs="+", default=None, help="drawn by Zipf's law, the first most often")
    parser.add_argument("--cold", type=Path, default=None, help="WAV file: every turn brings it, as a new voice")
    parser.add_argument("--max-lead-s", type=float, default=3.0)
    parser.add_argument("--words-per-s", type=float, default=None, help="stream the text word by word")
    parser.add_argument(
        "--network-ms", type=float, default=0.0, help="judge stalls as if messages took so long on average (a model)"
    )
    parser.add_argument(
        "--slow-readers", type=int, default=0, help="sessions beside the load that hardly read; unmeasured"
    )
    parser.add_argument("--texts", type=int, default=200)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--listen", action="store_true", help="decode every stream afterwards: length, clicks, silence")
    parser.add_argument("--raw", action="store_true", help="keep every audio message's time and length in turns.jsonl")
    parser.add_argument("--out", type=Path, default=None, help="folder for results.json, turns.jsonl and the picture")
    parser.add_argument("--plot", action="store_true", help="draw it, too (needs matplotlib)")


def run(args: argparse.Namespace) -> int:
    """0 if no turn failed."""
    from rich.console import Console
    from rich.progress import track

    if args.listen and args.format != "opus_packets":
        print("--listen decodes opus_packets only", file=sys.stderr)
        return 2
    judge = summarise_interruptions if args.mode == "churn" else summarise
    levels: list[dict[str, Any]] = []
    turns: list[dict[str, Any]] = []
    result = {
        "command": {k: str(v) if isinstance(v, Path) else v for k, v in vars(args).items()},
        "load_unit": MODES[args.mode],
        "texts_sha256": hashlib.sha256("\n".join(sentences(args.texts, args.seed)).encode()).hexdigest(),
        "environment": environment(args.url),
        "levels": levels,
    }
    plan = [load for load in args.load for _ in range(args.repeat)]
    for load in track(plan, f"{args.mode} load", console=Console(stderr=True), transient=True):
        rows = run_level(args, load)
        levels.append(judge(load, rows))
        turns += [{"load": load, **row} for row in rows]
        print_table(levels[-1:], header=len(levels) == 1)
        if args.out:  # after each level: whatever ends the next one does not take this one along
            _write(args, result, turns)
    print(json.dumps({"valid": all(level["valid"] for level in levels), "levels": len(levels)}))
    return 0 if not any(level["errors"] for level in levels) else 1


def _write(args: argparse.Namespace, result: dict[str, Any], turns: list[dict[str, Any]]) -> None:
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "results.json").write_text(json.dumps(result, indent=1) + "\n")
    with (args.out / "turns.jsonl").open("w") as file:
        file.writelines(json.dumps(turn) + "\n" for turn in turns)
    if args.plot and args.mode != "churn":
        from loadtest.plots import draw

        draw(result, args.out / "sweep.png")
