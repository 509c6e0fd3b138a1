"""Servers that the vendors' packages talk to, one of each for all tests here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.certificates import self_signed
from tests.server_process import ServerProcess, server_process


@pytest.fixture(scope="session")
def server() -> Iterator[ServerProcess]:
    with server_process("--slots", "4") as server:
        yield server


@pytest.fixture(scope="session")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that speaks TLS, for clients that insist on it."""
    with server_process("--slots", "2", tls=self_signed(tmp_path_factory.mktemp("tls"))) as server:
        yield server


@pytest.fixture(scope="session")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that wants a key."""
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text("right\n")
    with server_process("--slots", "2", "--api-keys-file", str(keys)) as server:
        yield server
