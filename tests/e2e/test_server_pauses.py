"""What is silence is for the operator to say."""

from __future__ import annotations

import httpx
import pytest

from tests.server_process import server_process


@pytest.mark.parametrize(("quiet_dbfs", "is_heard"), [("-13", True), ("-11", False)])
def test_the_level_of_silence_can_be_set(quiet_dbfs: str, is_heard: bool) -> None:
    """The null engine's tones peak at -12 dB of full scale."""
    with server_process("--model", "null", "--quiet-dbfs", quiet_dbfs) as server:
        asked = {"text": "Good morning.", "format": "pcm"}
        answer = httpx.post(server.http + "/v1/tts", json=asked, timeout=60, trust_env=False)
    assert answer.status_code == 200
    assert (len(answer.content) > 0) == is_heard
