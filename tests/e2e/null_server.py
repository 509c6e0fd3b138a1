"""A real server process over the null engine, with the faults a test asks for: python -m tests.e2e.null_server JSON.

The JSON holds `config` (fields of ServerConfig), `engine` (fields of NullEngine that are numbers), `loads_until_told`
(loading ends when a line comes on stdin) and `load_error` (what it fails with). Texts that hold "high" sound at
700 Hz, others at 300 Hz.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
from pathlib import Path

import numpy as np

from engine.api import Engine, Pcm, Prefill
from engine.null import FRAME_SAMPLES, SAMPLE_RATE_HZ, NullEngine
from realtime.config import ServerConfig
from realtime.server.lifecycle import serve

LOW_HZ, HIGH_HZ = 300.0, 700.0


def tone_of_text(request: Prefill, frame: int) -> Pcm:
    hz = HIGH_HZ if "high" in (request.text or "") else LOW_HZ
    index = np.arange(frame * FRAME_SAMPLES, (frame + 1) * FRAME_SAMPLES)
    pcm: Pcm = (8192 * np.sin(2 * np.pi * hz / SAMPLE_RATE_HZ * index)).astype(np.int16)
    return pcm


def main(settings: dict[str, dict[str, object]]) -> int:
    logging.basicConfig(level="INFO", format="%(levelname)s %(name)s: %(message)s", stream=sys.stderr)

    def load() -> Engine:
        if "loads_until_told" in settings:
            sys.stdin.readline()
        if "load_error" in settings:
            raise ValueError(settings["load_error"])
        return NullEngine(pcm_of=tone_of_text, **settings.get("engine", {}))  # type: ignore[arg-type]

    voices = str(Path(tempfile.gettempdir()) / f"kingfisher-voices-{os.getpid()}")  # made only by an upload
    config = {"port": 0, "model": "null", "voices_dir": voices} | settings.get("config", {})
    return serve(ServerConfig(**config), load)  # type: ignore[arg-type]


if __name__ == "__main__":
    raise SystemExit(main(json.loads(sys.argv[1])))
