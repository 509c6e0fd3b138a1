"""What a driver brought back, decoded and recognised."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import av
import numpy as np
import numpy.typing as npt

from tests.clients.drivers.outcome import TEXTS
from tests.listening import recognise, word_errors
from tests.server_process import ServerProcess

__all__ = ["assert_understood", "drive"]

DRIVERS = Path(__file__).parent / "drivers"
DRIVER_DEADLINE_S = 240
RATE_HZ = 24_000
MOST_WRONG = 0.5
"""Of the words of both turns. The bundled voice is rough and its noise is not seeded here: this tells speech from
noise, from another text, and from sound at a wrong rate or in a wrong format."""


def drive(command: list[str | Path], server: ServerProcess, folder: Path, *more: str) -> dict[str, Any]:
    """Run a driver against a server, whose certificate it trusts; what it found."""
    environment = {**os.environ, "PYTHONPATH": str(DRIVERS)}
    if server.certificate is not None:
        environment |= {"SSL_CERT_FILE": str(server.certificate), "NODE_EXTRA_CA_CERTS": str(server.certificate)}
    done = subprocess.run(
        [*map(str, command), server.http, str(folder), *more],
        env=environment,
        capture_output=True,
        text=True,
        timeout=DRIVER_DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def decode(path: Path) -> npt.NDArray[np.float32]:
    """Mono float32 at 24 kHz."""
    if path.suffix.startswith(".pcm"):
        import soxr

        pcm = np.frombuffer(path.read_bytes(), np.int16).astype(np.float32) / 32_768
        return np.asarray(soxr.resample(pcm, int(path.suffix.removeprefix(".pcm")), RATE_HZ), np.float32)
    resampler = av.AudioResampler("flt", "mono", RATE_HZ)
    with av.open(str(path)) as container:
        frames = [out for frame in container.decode(audio=0) for out in resampler.resample(frame)]
    frames += resampler.resample(None)
    return np.concatenate([frame.to_ndarray()[0] for frame in frames])


def assert_understood(found: dict[str, Any]) -> None:
    """Both turns are there, and a recogniser finds most of their words."""
    assert len(found["turns"]) == len(TEXTS)
    wrong = total = 0
    for path, text in zip(found["turns"], TEXTS, strict=True):
        heard = recognise(decode(Path(path)), RATE_HZ)
        errors, said = word_errors(text, heard)
        wrong, total = wrong + errors, total + said
    assert wrong <= MOST_WRONG * total
