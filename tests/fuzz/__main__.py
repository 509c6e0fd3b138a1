"""One target under atheris until its time is over: python -m tests.fuzz TARGET SECONDS [FOLDER]

Inputs that reach new code are kept in FOLDER (default: a temporary one). The first input that breaks a law is written
beside them, the traceback is printed, and the status is not 0.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris


def main() -> None:
    name, seconds = sys.argv[1], int(sys.argv[2])
    with atheris.instrument_imports(include=["realtime", "kingfisher_client", "engine.codec.audio_file"]):
        from tests.fuzz.targets import TARGETS, seeds
    folder = Path(sys.argv[3] if len(sys.argv) > 3 else tempfile.mkdtemp(prefix="kingfisher-fuzz-"))
    corpus = folder / name
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds(name)):
        (corpus / f"seed-{number}").write_bytes(seed)
    options = [
        f"-max_total_time={seconds}",
        "-max_len=65536",
        "-rss_limit_mb=2048",
        "-timeout=10",
        "-print_final_stats=1",
    ]
    atheris.Setup([sys.argv[0], *options, f"-artifact_prefix={folder}/{name}-", str(corpus)], TARGETS[name])
    atheris.Fuzz()


main()
