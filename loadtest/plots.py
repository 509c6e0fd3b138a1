"""Pictures of a sweep: time to first audio, and stalls, against the load. Needs the extra `loadtest` (matplotlib)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

__all__ = ["draw"]


def draw(result: dict[str, Any], path: Path) -> None:
    """`result` as in results.json → a PNG or SVG."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    levels = result["levels"]
    load = [level["load"] for level in levels]
    figure, (times, stalls) = pyplot.subplots(2, 1, sharex=True, figsize=(7, 7), constrained_layout=True)
    for percent, style in ((50, "o-"), (99, "s--")):
        times.plot(load, [level[f"ttfa_plan_p{percent}_ms"] for level in levels], style, label=f"p{percent}")
    times.set_ylabel("planned start to first packet (ms)")
    times.set_ylim(bottom=0)
    times.legend()
    for buffer in ("0", "100"):
        stalls.plot(
            load, [level[f"stall_ratio_b{buffer}"] for level in levels], "o-", label=f"{buffer} ms start buffer"
        )
    stalls.set_ylabel("stall ratio")
    stalls.set_xlabel(result["load_unit"])
    stalls.set_ylim(bottom=0)
    stalls.legend()
    command = result["command"]
    times.set_title(f"{command['mode']}: {result['environment']['gpu'] or result['environment']['cpu']}", fontsize=9)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
