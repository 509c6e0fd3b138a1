"""A real server in a process of its own, on a free loopback port."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parent.parent
START_DEADLINE_S = 120.0


class ServerProcess:
    def __init__(self, process: subprocess.Popen[bytes], port: int, log: Path, certificate: Path | None) -> None:
        self.process, self.port, self._log = process, port, log
        self.certificate = certificate
        """That it shows, where it speaks TLS."""
        self._trust = None if certificate is None else ssl.create_default_context(cafile=certificate)

    @property
    def ws(self) -> str:
        return f"{self.http.replace('http', 'ws', 1)}/v1/tts/live"

    @property
    def http(self) -> str:
        return f"http{'s' if self.certificate else ''}://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return self._log.read_text()

    def get(self, path: str) -> tuple[int, bytes]:
        """(status, body); 0 while nothing listens."""
        try:
            with urllib.request.urlopen(self.http + path, timeout=10, context=self._trust) as response:
                return response.status, response.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()
        except OSError:
            return 0, b""

    def metric(self, name: str) -> float:
        """One sample of /metrics, by its full name."""
        for line in self.get("/metrics")[1].decode().splitlines():
            if line.startswith(name + " "):
                return float(line.split()[-1])
        raise KeyError(name)

    @property
    def rss_bytes(self) -> int:
        return rss_bytes(self.process.pid)


def children_of(process: int) -> list[int]:
    lists = Path(f"/proc/{process}/task").glob("*/children")
    return [int(child) for one in lists for child in one.read_text().split()]


def rss_bytes(process: int) -> int:
    """Resident memory of a server, its encoder processes included."""
    pages = [int(Path(f"/proc/{one}/statm").read_text().split()[1]) for one in (process, *children_of(process))]
    return sum(pages) * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def server_process(
    *arguments: str,
    environment: dict[str, str] | None = None,
    tls: tuple[Path, Path] | None = None,
    folder: Path | None = None,
    closed: Sequence[int] = (),
) -> Iterator[ServerProcess]:
    """Start `kingfisher serve …` and wait until it is ready; afterwards end it, hard if it must be. `tls`: certificate
    and key. `folder`: where it is started. `closed`: standard descriptors that it does not get."""
    if tls is not None:
        arguments = (*arguments, "--tls-cert", str(tls[0]), "--tls-key", str(tls[1]))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    paths = os.pathsep.join(
        [str(ROOT), str(ROOT / "clients" / "python"), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    with tempfile.TemporaryDirectory() as kept:
        log = Path(kept) / "server.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [
                    *("sh", "-c", f'exec "$@" {" ".join(f"{number}>&-" for number in closed)}', "sh"),
                    *(sys.executable, "-m", "realtime", "serve", "--port", str(port), *arguments),
                ],
                cwd=folder,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={
                    **os.environ,
                    "PYTHONPATH": paths,
                    "KINGFISHER_VOICES_DIR": str(Path(kept) / "voices"),
                    **(environment or {}),
                },
            )
        server = ServerProcess(process, port, log, None if tls is None else tls[0])
        try:
            deadline = time.monotonic() + START_DEADLINE_S
            while server.get("/readyz")[0] != 200:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise AssertionError(f"the server did not become ready:\n{server.log}")
                time.sleep(0.05)
            yield server
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
