"""TLS by the server itself: sockets and requests, and certificates that cannot be used."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import urllib.request
from pathlib import Path

import pytest
from kingfisher_client import AsyncClient, ConnectFailed
from websockets.asyncio.client import connect

from tests.certificates import self_signed
from tests.e2e.live import Caller, running, sound, started


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return self_signed(tmp_path_factory.mktemp("tls"))


async def test_sockets_and_requests_come_over_tls(certificate: tuple[Path, Path]) -> None:
    cert, key = certificate
    trusting = ssl.create_default_context(cafile=cert)
    with running(config={"tls_cert": str(cert), "tls_key": str(key)}) as server:
        async with connect(f"wss://127.0.0.1:{server.port}/v1/tts/live", ssl=trusting, max_size=None) as socket:
            assert sound(await Caller(socket).turn("Some words.", format="pcm"))

        def health() -> int:
            with urllib.request.urlopen(f"https://127.0.0.1:{server.port}/healthz", context=trusting) as answer:
                return int(answer.status)

        assert await asyncio.to_thread(health) == 200
        assert any("wss://" in line for line in server.log)


async def test_our_own_client_trusts_what_the_machine_trusts(
    certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    cert, key = certificate
    with running(config={"tls_cert": str(cert), "tls_key": str(key)}) as server:
        address = f"wss://127.0.0.1:{server.port}/v1/tts/live"
        with pytest.raises(ConnectFailed, match="certificate"):
            await AsyncClient(address).connect()
        monkeypatch.setenv("SSL_CERT_FILE", str(cert))
        async with AsyncClient(address) as client:
            assert [audio.data async for audio in client.speak("Some words.", format="pcm")]


async def test_a_certificate_that_cannot_be_used_is_named_and_ends_the_process(
    certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    empty = tmp_path / "empty.pem"
    empty.touch()
    for cert, key in ((empty, certificate[1]), (certificate[0], empty), (tmp_path / "none.pem", certificate[1])):
        with started(config={"tls_cert": str(cert), "tls_key": str(key)}) as server:
            assert await asyncio.to_thread(server.wait_for_exit) == 1
            assert str(cert) in "".join(server.log)


async def test_a_key_with_a_password_ends_the_process_and_asks_nobody(
    certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    locked = tmp_path / "locked.pem"
    command = ["openssl", "ec", "-in", str(certificate[1]), "-aes256", "-passout", "pass:x", "-out", str(locked)]
    await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True)
    with started(config={"tls_cert": str(certificate[0]), "tls_key": str(locked)}) as server:
        assert await asyncio.to_thread(server.wait_for_exit) == 1
        assert "cannot be used" in "".join(server.log)
