"""Faults of installation and of access to files (groups J, K and O of tests/FAULTS.md), each in a fresh interpreter."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def python(code: str) -> str:
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=ROOT,
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'clients' / 'python'}", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_fault_106_server_and_client_can_be_imported_without_libopus() -> None:
    hidden = "import ctypes.util; ctypes.util.find_library = lambda name: None; "
    said = python(
        hidden + "import sys; import realtime.server.lifecycle, kingfisher_client; "
        "from realtime.audio.encoder import make_encoder; from realtime.protocol.events import OutputSpec; "
        "make_encoder(OutputSpec('pcm'), 24000); print('opuslib' in sys.modules)"
    )
    assert said == "False"


def test_fault_108_the_server_imports_no_sound_device_and_no_web_toolkit() -> None:
    said = python(
        "import sys; import realtime.__main__, realtime.server.lifecycle, engine.load; "
        "print(sorted({'pyaudio', 'sounddevice', 'gradio', 'torchaudio', 'librosa'} & set(sys.modules)))"
    )
    assert said == "[]"


def test_fault_108_what_is_required_to_serve_needs_no_compiler_and_no_sound_card() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {line.split(">")[0].split("=")[0].strip() for line in project["dependencies"]}
    assert not names & {"pyaudio", "sounddevice", "gradio", "torchaudio", "librosa"}
    assert any("sounddevice" in line for line in project["optional-dependencies"]["play"])


def test_fault_109_the_lowest_websocket_library_is_stated() -> None:
    server = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    client = tomllib.loads((ROOT / "clients/python/pyproject.toml").read_text())["project"]["dependencies"]
    ranges = {line.replace(" ", "") for line in server + client if line.startswith("websockets")}
    assert len(ranges) == 1, f"server and client disagree: {ranges}"
    assert ">=" in ranges.pop()


AUDIT = (
    "import sys; opened = []; "
    "sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == 'open' else None); "
)


@pytest.mark.parametrize("clip", ["/etc/hostname", "../../etc/hostname", "file:///etc/hostname"])
def test_fault_71_bytes_that_look_like_a_path_open_no_file(clip: str) -> None:
    said = python(
        "from engine.codec.audio_file import decode_clip; from engine.api import BadReference\n"
        + AUDIT
        + f"\ntry:\n    decode_clip({clip!r}.encode(), 24000)\nexcept BadReference as error:\n"
        "    print('hostname' in str(error) or any('hostname' in name for name in opened))"
    )
    assert said == "False"


@pytest.mark.parametrize("name", ["../../etc/hostname", "/etc/hostname", "..%2f..", "a\0b", "x" * 4_000])
def test_fault_82_a_voice_that_climbs_is_unknown_and_opens_no_file(name: str) -> None:
    said = python(
        "from realtime.protocol.context import Context; from realtime.protocol.request import StreamRequest\n"
        "context = Context(max_stream_chars=9, voices=('low',), voice='low', new_seed=lambda: 1)\n"
        "from realtime.protocol.fish.request import parse_request\n" + AUDIT + "\nimport_done = len(opened)\n"
        f"context.start(parse_request({{'voice': {name!r}}}), 0.0)\n"
        "print(context.replies()[0].code, opened[import_done:])"
    )
    assert said == "unknown_voice []"
