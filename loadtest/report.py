"""From turns to figures: percentiles, the table, and the block that says where they were taken."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

__all__ = ["environment", "percentile", "print_table", "summarise", "summarise_interruptions"]

MAX_LATENESS_P99_MS = 5.0
"""Past this the load generator was late itself, and the run says nothing about the server."""


def percentile(values: Sequence[float], percent: float) -> float:
    """Nearest-rank percentile; NaN without values."""
    if not values:
        return float("nan")
    ordered = sorted(values)
    rank = max(1, -(-len(ordered) * percent // 100))
    return ordered[int(rank) - 1]


def summarise_interruptions(load: float, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """One level of callers who interrupt."""
    good = [row for row in rows if "error" not in row]
    result: dict[str, Any] = {"load": load, "turns": len(good), "errors": len(rows) - len(good), "valid": bool(good)}
    for key in ("cancel_answer", "cancel_silence", "cancel_next_audio"):
        result |= {f"{key}_p{p}_ms": percentile([row[f"{key}_ms"] for row in good], p) for p in (50, 95, 99)}
    return result


def summarise(load: float, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """One level of load. `rtf` is wall time over audio time, so it exceeds what the machine needs
    when the server paces itself; `c100` is the share of turns with no underrun over 100 ms (buffer 0)."""
    good = [row for row in rows if "error" not in row]
    audio_ms = sum(row["audio_ms"] for row in good)
    result: dict[str, Any] = {
        "load": load,
        "turns": len(good),
        "errors": len(rows) - len(good),
        "lateness_p99_ms": percentile([row["lateness_ms"] for row in good], 99),
        "audio_s": audio_ms / 1000,
        "rtf_p50": percentile([row["wall_ms"] / row["audio_ms"] for row in good], 50),
        "max_gap_p99_ms": percentile([max(row["gaps_ms"], default=0.0) for row in good], 99),
        **{f"gap_p{p}_ms": percentile([gap for row in good for gap in row["gaps_ms"]], p) for p in (50, 95, 99)},
        "pts_gaps": sum(row["pts_gaps"] for row in good),
    }
    for name, key in (("ttfa", "ttfa_ms"), ("ttfa_plan", "ttfa_plan_ms")):
        values = [row[key] for row in good]
        result |= {f"{name}_p{p}_ms": percentile(values, p) for p in (50, 95, 99)}
    for buffer in ("0", "40", "100"):
        stalled_ms = sum(row["stalled_ms"][buffer] for row in good)
        result[f"stall_ratio_b{buffer}"] = stalled_ms / audio_ms if audio_ms else float("nan")
        stalls = sum(row["stalls"][buffer] for row in good)
        result[f"stalls_a_minute_b{buffer}"] = stalls * 60_000 / audio_ms if audio_ms else float("nan")
    underruns = [row["underrun_ms"]["0"] for row in good]
    for limit in (20, 50, 100):
        result[f"c{limit}"] = sum(u <= limit for u in underruns) / len(good) if good else float("nan")
    result["min_slack_p1_ms"] = percentile([row["min_slack_ms"] for row in good if row["min_slack_ms"] is not None], 1)
    result |= {f"jitter_p{p}_ms": percentile([row["jitter_ms"] for row in good], p) for p in (50, 99)}
    if sounds := [row["sound"] for row in good if "sound" in row]:
        result["leading_silence_p50_ms"] = percentile([sound["leading_silence_ms"] for sound in sounds], 50)
        audible = [row["ttfa_ms"] + row["sound"]["leading_silence_ms"] for row in good if "sound" in row]
        result |= {f"audible_p{p}_ms": percentile(audible, p) for p in (50, 99)}
        result["clicks"] = sum(sound["clicks"] for sound in sounds)
        lengths = [abs(row["sound"]["decoded_ms"] - row["audio_ms"]) for row in good if "sound" in row]
        result["length_error_max_ms"] = max(lengths)
    splits = [row["server_ttfa_ms"] for row in good if row["server_ttfa_ms"]]
    if splits:
        for percent in (50, 99):
            parts = {key: percentile([split[key] for split in splits], percent) for key in splits[0]}
            result[f"server_ttfa_p{percent}_ms"] = parts
        outside = [row["ttfa_ms"] - row["server_ttfa_ms"]["total"] for row in good if row["server_ttfa_ms"]]
        result |= {f"outside_p{percent}_ms": percentile(outside, percent) for percent in (50, 99)}
    result["valid"] = bool(good) and result["lateness_p99_ms"] <= MAX_LATENESS_P99_MS
    return result


INTERRUPTION_COLUMNS = (
    ("load", "load", "{:g}"),
    ("turns", "turns", "{:d}"),
    ("errors", "errors", "{:d}"),
    *(
        (f"cancel_{what}_p{p}_ms", f"{title} p{p}", "{:.1f}")
        for what, title in (("answer", "answer"), ("silence", "silence"), ("next_audio", "next"))
        for p in (50, 99)
    ),
)

COLUMNS = (
    ("load", "load", "{:g}"),
    ("turns", "turns", "{:d}"),
    ("errors", "errors", "{:d}"),
    ("ttfa_p50_ms", "TTFA p50", "{:.1f}"),
    ("ttfa_p99_ms", "p99 ms", "{:.1f}"),
    ("ttfa_plan_p50_ms", "planned p50", "{:.1f}"),
    ("ttfa_plan_p99_ms", "p99 ms", "{:.1f}"),
    ("rtf_p50", "RTF p50", "{:.3f}"),
    ("stall_ratio_b0", "stall B=0", "{:.5f}"),
    ("stall_ratio_b100", "B=100", "{:.5f}"),
    ("c100", "C100", "{:.3f}"),
    ("max_gap_p99_ms", "gap p99 ms", "{:.0f}"),
    ("lateness_p99_ms", "late p99 ms", "{:.1f}"),
    ("valid", "valid", "{!s}"),
)


def print_table(levels: list[dict[str, Any]], *, header: bool) -> None:
    columns = COLUMNS if "ttfa_p50_ms" in levels[0] else INTERRUPTION_COLUMNS
    if header:
        print(" ".join(f"{title:>11}" for _, title, _ in columns))
    for level in levels:
        print(" ".join(f"{form.format(level[key]):>11}" for key, _, form in columns), flush=True)


def environment(url: str) -> dict[str, Any]:
    """Where the figures were taken: of this machine, and whether the server at this address is on it, too."""

    def output(*command: str) -> str:
        try:
            return subprocess.run(command, capture_output=True, text=True, timeout=10).stdout.strip()
        except (OSError, subprocess.TimeoutExpired):
            return ""

    cpu = next((line.split(":")[1].strip() for line in output("lscpu").splitlines() if "Model name" in line), "")
    return {
        "cpu": cpu,
        "cpus": os.cpu_count(),
        "gpu": output("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"),
        "commit": output("git", "rev-parse", "--short", "HEAD"),
        "dirty": bool(output("git", "status", "--porcelain")),
        "python": platform.python_version(),
        "client_shares_machine": urlsplit(url).hostname in ("127.0.0.1", "localhost", "::1"),
    }
