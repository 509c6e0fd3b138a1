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
import asyncio
import json
import multiprocessing
import random
import statistics
import time
from pathlib import Path
from typing import Any

from websockets.asyncio.client import connect

from loadtest.player import play
from loadtest.report import environment, print_table, summarise
from loadtest.texts import sentences
from loadtest.turn import Turn, TurnFailed, speak

MAX_MESSAGE_BYTES = 1 << 24


async def caller(args: argparse.Namespace, number: int, texts: list[str], until_s: float) -> list[dict[str, Any]]:
    """One caller on one socket, turn after turn until the time is up."""
    rng = random.Random(args.seed * 7919 + number)
    request = {"format": args.format, "voice": args.voice, "max_lead_s": args.max_lead_s}
    rows: list[dict[str, Any]] = []
    async with connect(args.url, compression=None, max_size=MAX_MESSAGE_BYTES) as socket:
        planned_s = time.monotonic() + rng.uniform(0.0, args.ramp_s)
        while planned_s < until_s:
            await asyncio.sleep(max(0.0, planned_s - time.monotonic()))
            text = texts[(number * 31 + len(rows) * 17) % len(texts)]
            request["seed"] = rng.randrange(1 << 31)
            try:
                turn = await speak(socket, text, request=request, planned_s=planned_s, words_per_s=args.words_per_s)
            except* TurnFailed as failures:
                rows.append({"caller": number, "text": text, "error": str(failures.exceptions[0])})
                planned_s = time.monotonic() + 1.0
                continue
            rows.append(row_of(turn, number))
            heard_s = turn.arrivals[0].at_s + sum(a.audio_s for a in turn.arrivals)
            pause_s = rng.uniform(0.1, 0.6)
            planned_s = time.monotonic() if args.mode == "closed" else max(heard_s, time.monotonic()) + pause_s
    return rows


def row_of(turn: Turn, number: int) -> dict[str, Any]:
    """What is kept of a turn; all times in milliseconds."""
    playback = {str(b): play(turn.arrivals, b / 1000) for b in (0, 40, 100)}
    gaps = [(b.at_s - a.at_s) * 1000 for a, b in zip(turn.arrivals, turn.arrivals[1:], strict=False)]
    wall_s = turn.arrivals[-1].at_s - turn.text_sent_s
    return {
        "caller": number,
        "text": turn.text,
        "ttfa_ms": turn.ttfa_s * 1000,
        "ttfa_plan_ms": (turn.arrivals[0].at_s - turn.planned_s) * 1000,
        "lateness_ms": turn.lateness_s * 1000,
        "audio_ms": playback["0"].audio_s * 1000,
        "wall_ms": wall_s * 1000,
        "max_gap_ms": max(gaps, default=0.0),
        "underrun_ms": {b: p.max_underrun_s * 1000 for b, p in playback.items()},
        "stalled_ms": {b: p.stalled_s * 1000 for b, p in playback.items()},
        "min_slack_ms": playback["0"].min_slack_s * 1000 if len(turn.arrivals) > 1 else None,
        "pts_gaps": turn.pts_gaps,
        "server_ttfa_ms": turn.finish.get("ttfa_ms"),
    }


def client_process(args: argparse.Namespace, numbers: list[int], queue: Any) -> None:
    """One process of callers; uvloop keeps its own lateness small."""
    import uvloop

    texts = sentences(args.texts, args.seed)

    async def run() -> list[dict[str, Any]]:
        until_s = time.monotonic() + args.seconds
        many = await asyncio.gather(*(caller(args, n, texts, until_s) for n in numbers))
        return [row for rows in many for row in rows]

    try:
        queue.put(uvloop.run(run()))
    except BaseException as error:  # the parent must learn of it, whatever it is
        queue.put(error)
        raise


def run_level(args: argparse.Namespace, concurrency: int) -> list[dict[str, Any]]:
    """All callers of one concurrency level, spread over the client processes."""
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    processes = []
    for p in range(min(args.processes, concurrency)):
        numbers = list(range(p, concurrency, args.processes))
        processes.append(context.Process(target=client_process, args=(args, numbers, queue), daemon=True))
    for process in processes:
        process.start()
    rows: list[dict[str, Any]] = []
    for _ in processes:
        got = queue.get(timeout=args.seconds + 180)
        if isinstance(got, BaseException):
            raise got
        rows += got
    for process in processes:
        process.join(timeout=10)
    return rows


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
