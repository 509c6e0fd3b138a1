"""A certificate for servers on 127.0.0.1 that a test starts."""

from __future__ import annotations

import subprocess
from pathlib import Path

__all__ = ["self_signed"]


def self_signed(folder: Path) -> tuple[Path, Path]:
    """(certificate, its key) as PEM files in `folder`, for 127.0.0.1 and localhost. Whoever trusts the first as an
    authority trusts the server."""
    cert, key = folder / "cert.pem", folder / "key.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost", "-keyout", str(key), "-out", str(cert)]
    subprocess.run([*command.split(), *names], check=True, capture_output=True)
    return cert, key
