"""The callers of a load test: sessions that take turn after turn, spread over client processes."""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import queue
import random
import time
from typing import Any

import uvloop
from websockets.asyncio.client import ClientConnection, connect

from loadtest.player import play
from loadtest.texts import sentences
from loadtest.turn import Turn, TurnFailed, speak

__all__ = ["run_level"]

MAX_MESSAGE_BYTES = 1 << 24
GRACE_S = 90.0
"""Turns under way when the time is up are finished."""


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
            turn = await attempt(socket, text, request, planned_s, args.words_per_s)
            if isinstance(turn, str):
                rows.append({"caller": number, "text": text, "error": turn})
                planned_s = time.monotonic() + 1.0
                continue
            rows.append(row_of(turn, number))
            heard_s = turn.arrivals[0].at_s + sum(a.audio_s for a in turn.arrivals)
            pause_s = rng.uniform(0.1, 0.6)
            planned_s = time.monotonic() if args.mode == "closed" else max(heard_s, time.monotonic()) + pause_s
    return rows


async def attempt(
    socket: ClientConnection, text: str, request: dict[str, Any], planned_s: float, words_per_s: float | None
) -> Turn | str:
    """The turn, or what went wrong with it."""
    try:
        return await speak(socket, text, request=dict(request), planned_s=planned_s, words_per_s=words_per_s)
    except* TurnFailed as failures:
        message = "; ".join(map(str, failures.exceptions))
    return message


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


def client_process(args: argparse.Namespace, numbers: list[int], results: Any) -> None:
    """One process of callers; uvloop keeps its own lateness small."""
    texts = sentences(args.texts, args.seed)

    async def run() -> list[dict[str, Any]]:
        until_s = time.monotonic() + args.seconds
        many = await asyncio.gather(*(caller(args, n, texts, until_s) for n in numbers))
        return [row for rows in many for row in rows]

    try:
        results.put(uvloop.run(run()))
    except BaseException as error:  # the parent must learn of it, whatever it is
        results.put(error)
        raise


def run_level(args: argparse.Namespace, concurrency: int) -> list[dict[str, Any]]:
    """All callers of one concurrency level, spread over the client processes."""
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    processes = []
    for p in range(min(args.processes, concurrency)):
        numbers = list(range(p, concurrency, args.processes))
        processes.append(context.Process(target=client_process, args=(args, numbers, results), daemon=True))
    for process in processes:
        process.start()
    rows: list[dict[str, Any]] = []
    for _ in processes:
        got = _next_result(results, processes, args.seconds + GRACE_S)
        if isinstance(got, BaseException):
            raise got
        rows += got
    for process in processes:
        process.join(timeout=10)
    return rows


def _next_result(results: Any, processes: list[Any], timeout_s: float) -> Any:
    """What the next client process brings; a process that died without a word is an error, not a wait."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        try:
            return results.get(timeout=0.5)
        except queue.Empty:
            if all(process.exitcode is not None for process in processes):
                break
    return RuntimeError(f"client processes ended without results: {[p.exitcode for p in processes]}")
