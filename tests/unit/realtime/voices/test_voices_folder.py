"""Files are there whole or not at all, whenever the process is killed; and names never leave their folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from realtime.voices.folder import Folder
from realtime.voices.library import voice_of
from realtime.voices.record import BadRecord, VoiceRecord, decode_record, encode_record

ROOT = Path(__file__).parents[4]

WRITER = """
import sys
from pathlib import Path
from realtime.voices.folder import Folder
from realtime.voices.record import VoiceRecord, encode_record
folder = Folder(Path(sys.argv[1]), ".voice")
count = 0
while True:
    codes = bytes([count % 256]) * 200_000
    record = VoiceRecord(id="a", title=str(count), transcript="", codes=codes, codebooks=10)
    folder.write("a", encode_record(record))
    print(count, flush=True)
    count += 1
"""


@pytest.mark.parametrize("writes", [1, 2, 5, 9])
def test_a_killed_writer_leaves_a_whole_file(tmp_path: Path, writes: int) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None
    acknowledged = [int(process.stdout.readline()) for _ in range(writes)][-1]
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    ((name, data),) = Folder(tmp_path, ".voice").read_all()
    record = decode_record(data)
    assert name == "a"
    assert int(record.title) >= acknowledged
    assert set(record.codes) == {int(record.title) % 256}
    assert {path.suffix for path in tmp_path.iterdir()} == {".voice"}


@pytest.mark.parametrize(
    "name", ["../a", "/etc/hostname", "..%2f..", "a\0b", "", ".", "..", "-a", "a/b", "a\\b", "x" * 65, "x" * 4_000, "ä"]
)
def test_names_that_climb_are_refused(tmp_path: Path, name: str) -> None:
    folder = Folder(tmp_path / "voices", ".voice")
    for attempt in (lambda: folder.write(name, b""), lambda: folder.read(name), lambda: folder.remove(name)):
        with pytest.raises(ValueError, match="is no name"):
            attempt()
    assert not (tmp_path / "voices").exists()


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    folder = Folder(tmp_path / "voices", ".voice")
    folder.write("a", b"mine")
    (folder.path / "b.voice").symlink_to(tmp_path / "secret")
    assert folder.read("b") is None
    assert [name for name, _ in folder.read_all()] == ["a"]


def test_what_was_left_half_written_is_removed_at_the_next_start(tmp_path: Path) -> None:
    folder = Folder(tmp_path, ".voice")
    folder.write("a", b"whole")
    (tmp_path / "xyz.part").write_bytes(b"ha")
    assert list(folder.read_all()) == [("a", b"whole")]
    assert not (tmp_path / "xyz.part").exists()


def test_removing_twice_is_removing_once(tmp_path: Path) -> None:
    folder = Folder(tmp_path, ".voice")
    folder.write("a", b"x")
    folder.remove("a")
    folder.remove("a")
    assert list(folder.read_all()) == []


RECORD = VoiceRecord(id="a", title="A", transcript="Hello.", codes=bytes(40), codebooks=10, tags=("x",))


def test_a_record_comes_back_as_it_was() -> None:
    assert decode_record(encode_record(RECORD)) == RECORD
    assert voice_of(RECORD).codes.shape == (10, 2)
    assert not voice_of(RECORD).codes.flags.writeable


@pytest.mark.parametrize("place", range(0, 80, 7))
def test_a_damaged_record_is_noticed(place: int) -> None:
    data = bytearray(encode_record(RECORD))
    data[place] ^= 0x40
    with pytest.raises(BadRecord):
        decode_record(bytes(data))
    with pytest.raises(BadRecord):
        decode_record(encode_record(RECORD)[:place])
