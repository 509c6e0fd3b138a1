"""`python -m loadtest --url ws://127.0.0.1:8000/v1/tts/live -c 1 4 8 --seconds 30`

Two kinds of load:

* `--mode talkers` (default): c callers who each listen to a turn to its end and start the next after a short
  random pause: what a real-time server lives on. Pauses are drawn beforehand from the seed.
* `--mode closed`: each of c callers starts the next turn as soon as the last byte has come; only for
  comparison with published closed-loop tables (coordinated omission by design).

Prints a table, writes results.json and one JSONL line per turn. A run whose own sends were late
(p99 > 5 ms) is marked invalid: the load generator, not the server, was measured.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

from loadtest.callers import run_level
from loadtest.report import environment, print_table, summarise


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m loadtest", description=__doc__.split("\n\n")[1])
    parser.add_argument("--url", default="ws://127.0.0.1:8000/v1/tts/live")
    parser.add_argument("-c", "--concurrency", type=int, nargs="+", default=[1])
    parser.add_argument("--mode", choices=["talkers", "closed"], default="talkers")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--ramp-s", type=float, default=2.0, help="first turns start spread over this time")
    parser.add_argument("--format", default="opus_packets")
    parser.add_argument("--voice", default=None)
    parser.add_argument("--max-lead-s", type=float, default=3.0)
    parser.add_argument("--words-per-s", type=float, default=None, help="stream the text word by word")
    parser.add_argument("--texts", type=int, default=200)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=None, help="folder for results.json and turns.jsonl")
    args = parser.parse_args()

    levels = []
    turns: list[dict[str, Any]] = []
    for concurrency in args.concurrency:
        rows = run_level(args, concurrency)
        levels.append(summarise(concurrency, rows))
        turns += [{"c": concurrency, **row} for row in rows]
        print_table(levels[-1:], header=len(levels) == 1)
    result = {
        "command": {k: str(v) if isinstance(v, Path) else v for k, v in vars(args).items()},
        "environment": environment(),
        "levels": levels,
    }
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / "results.json").write_text(json.dumps(result, indent=1) + "\n")
        with (args.out / "turns.jsonl").open("w") as file:
            file.writelines(json.dumps(turn) + "\n" for turn in turns)
    print(json.dumps({"valid": all(level["valid"] for level in levels), "levels": len(levels)}))
    errors = statistics.fmean(level["errors"] for level in levels)
    return 0 if errors == 0 else 1


if __name__ == "__main__":
    raise SystemExit(main())
