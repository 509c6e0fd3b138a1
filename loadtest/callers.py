"""The client processes of a load test, and the callers in them: sessions that take turn after turn."""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import queue
import random
import time
from typing import Any

import uvloop
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus

from loadtest.arrivals import burst, poisson
from loadtest.barge_in import interrupt
from loadtest.network import delayed
from loadtest.player import play, rfc3550_jitter_s
from loadtest.rider import listen
from loadtest.slow_reader import read_slowly
from loadtest.texts import sentences
from loadtest.turn import Turn, TurnFailed, speak
from realtime.runtime.slices import ask_for_short_slices

__all__ = ["attempt", "request_of", "row_of", "run_level"]

MAX_MESSAGE_BYTES = 1 << 24
GRACE_S = 90.0
"""Turns under way when the time is up are finished."""
BURST_S = 0.1
INTERRUPT_AFTER_S = (0.2, 2.0)


def request_of(args: argparse.Namespace, number: int) -> dict[str, Any]:
    """What caller or turn `number` asks for: one voice for all (hot), one by Zipf's law over `--voices`, or with
    `--cold` a clip that no server has seen, at each call."""
    voice = args.voice
    if args.cold:
        clip = args.cold.read_bytes()[:-4] + os.urandom(4)  # its last two samples
        return {"format": args.format, "references": [{"audio": clip, "text": ""}], "max_lead_s": args.max_lead_s}
    if args.voices:
        weights = [1 / (rank + 1) for rank in range(len(args.voices))]
        (voice,) = random.Random(args.seed * 31 + number).choices(args.voices, weights)
    return {"format": args.format, "voice": voice, "max_lead_s": args.max_lead_s}


async def caller(args: argparse.Namespace, number: int, texts: list[str], until_s: float) -> list[dict[str, Any]]:
    """One caller on one socket, turn after turn until the time is up."""
    rng = random.Random(args.seed * 7919 + number)
    rows: list[dict[str, Any]] = []
    async with connect(args.url, compression=None, max_size=MAX_MESSAGE_BYTES) as socket:
        planned_s = time.monotonic() + rng.uniform(0.0, args.ramp_s)
        while planned_s < until_s:
            await asyncio.sleep(max(0.0, planned_s - time.monotonic()))
            text = texts[(number * 31 + len(rows) * 17) % len(texts)]
            request = {**request_of(args, number), "seed": rng.randrange(1 << 31)}
            turn = await attempt(socket, text, request, planned_s, args.words_per_s)
            if isinstance(turn, str):
                rows.append({"caller": number, "text": text, "error": turn})
                planned_s = time.monotonic() + 1.0
                continue
            rows.append(row_of(turn, number, args))
            heard_s = turn.arrivals[0].at_s + sum(a.audio_s for a in turn.arrivals)
            pause_s = rng.uniform(0.1, 0.6)
            planned_s = time.monotonic() if args.mode == "closed" else max(heard_s, time.monotonic()) + pause_s
    return rows


async def interrupter(args: argparse.Namespace, number: int, texts: list[str], until_s: float) -> list[dict[str, Any]]:
    """One caller who interrupts every turn after a random while and hears the next one to its end."""
    rng = random.Random(args.seed * 7919 + number)
    rows: list[dict[str, Any]] = []
    async with connect(args.url, compression=None, max_size=MAX_MESSAGE_BYTES) as socket:
        await asyncio.sleep(rng.uniform(0.0, args.ramp_s))
        while time.monotonic() < until_s:
            text, after = (texts[(number * 31 + len(rows) * 17 + i) % len(texts)] for i in (0, 1))
            request = {**request_of(args, number), "seed": rng.randrange(1 << 31)}
            try:
                times = await interrupt(socket, text, after, request=request, after_s=rng.uniform(*INTERRUPT_AFTER_S))
                rows.append({"caller": number, "text": text, **times})
            except TurnFailed as failure:
                rows.append({"caller": number, "text": text, "error": str(failure)})
                return rows  # what the socket holds now is unknown
            await asyncio.sleep(rng.uniform(0.1, 0.6))
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


def row_of(turn: Turn, number: int, args: argparse.Namespace) -> dict[str, Any]:
    """What is kept of a turn; all times in milliseconds. The player listens behind `--network-ms`; the rest is as it
    came here."""
    reached = delayed(turn.arrivals, args.network_ms / 1000, random.Random(f"{args.seed} {number} {turn.text}"))
    playback = {str(b): play(reached, b / 1000) for b in (0, 40, 100)}
    gaps = [(b.at_s - a.at_s) * 1000 for a, b in zip(turn.arrivals, turn.arrivals[1:], strict=False)]
    wall_s = turn.arrivals[-1].at_s - turn.text_sent_s
    row: dict[str, Any] = {
        "caller": number,
        "text": turn.text,
        "ttfa_ms": turn.ttfa_s * 1000,
        "ttfa_plan_ms": (turn.arrivals[0].at_s - turn.planned_s) * 1000,
        "lateness_ms": turn.lateness_s * 1000,
        "audio_ms": playback["0"].audio_s * 1000,
        "wall_ms": wall_s * 1000,
        "gaps_ms": gaps,
        "underrun_ms": {b: p.max_underrun_s * 1000 for b, p in playback.items()},
        "stalls": {b: p.stalls for b, p in playback.items()},
        "stalled_ms": {b: p.stalled_s * 1000 for b, p in playback.items()},
        "min_slack_ms": playback["0"].min_slack_s * 1000 if len(turn.arrivals) > 1 else None,
        "pts_gaps": turn.pts_gaps,
        "jitter_ms": rfc3550_jitter_s(turn.arrivals) * 1000,
        "server_ttfa_ms": turn.finish.get("ttfa_ms"),
    }
    if args.raw:
        row["chunks"] = [
            [round((a.at_s - turn.text_sent_s) * 1000, 2), round(a.audio_s * 1000, 2), size]
            for a, size in zip(turn.arrivals, turn.sizes_bytes, strict=True)
        ]
    if args.listen:
        row["packets"] = turn.packets
    return row


def client_process(args: argparse.Namespace, share: int, load: float, results: Any) -> None:
    """Share number `share` of the load; uvloop and short slices keep its own lateness small."""
    ask_for_short_slices()
    texts = sentences(args.texts, args.seed)

    async def run() -> list[dict[str, Any]]:
        slow = [
            asyncio.create_task(read_slowly(args.url, texts[number:], request_of(args, number)))
            for number in range(share, args.slow_readers, args.processes)
        ]
        rows = await measured()
        if ended := [task for task in slow if task.done()]:
            raise RuntimeError(f"{len(ended)} slow readers could not go on: {ended[0].exception()!r}")
        for task in slow:
            task.cancel()
        return rows

    async def measured() -> list[dict[str, Any]]:
        if args.mode in ("open", "burst"):
            from loadtest.open_loop import open_loop

            return await open_loop(args, _offsets(args, share, load), texts[share :: args.processes])
        take = interrupter if args.mode == "churn" else caller
        until_s = time.monotonic() + args.seconds
        numbers = range(share, int(load), args.processes)
        many = await asyncio.gather(*(take(args, n, texts, until_s) for n in numbers))
        return [row for rows in many for row in rows]

    try:
        results.put([_heard(row) for row in uvloop.run(run())])
    except InvalidStatus as error:  # its own words leave out what the server said
        said = error.response.body.decode(errors="replace")
        results.put(RuntimeError(f"{args.url} answered {error.response.status_code}: {said[:300]}"))
        raise
    except BaseException as error:  # the parent must learn of it, whatever it is
        results.put(error)
        raise


def _offsets(args: argparse.Namespace, share: int, load: float) -> list[float]:
    """Shares of a Poisson process are Poisson processes themselves."""
    if args.mode == "burst":
        return burst(int(load), BURST_S, args.seed)[share :: args.processes]
    return poisson(load / args.processes, args.seconds, args.seed * 1_000 + share)


def _heard(row: dict[str, Any]) -> dict[str, Any]:
    """With `--listen`: the packets make way for what they sound like."""
    if (packets := row.pop("packets", None)) is not None:
        sound = listen(packets)
        row["sound"] = {
            "decoded_ms": sound.decoded_ms,
            "leading_silence_ms": sound.leading_silence_ms,
            "clicks": sound.clicks,
        }
    return row


def run_level(args: argparse.Namespace, load: float) -> list[dict[str, Any]]:
    """One level of load (callers, or turns a second), spread over the client processes."""
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    processes = []
    for share in range(args.processes):
        processes.append(context.Process(target=client_process, args=(args, share, load, results), daemon=True))
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
