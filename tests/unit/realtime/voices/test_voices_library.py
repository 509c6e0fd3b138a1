"""Uploaded voices: what was acknowledged is there after a restart; what cannot be used harms nothing else."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import numpy as np
import pytest

from engine.api import Voice
from realtime.errors import BadReference, NameTaken, UnknownVoice
from realtime.voices import library as library_module
from realtime.voices.clips import ClipCache
from realtime.voices.folder import Folder
from realtime.voices.library import VoiceLibrary
from realtime.voices.record import VoiceRecord

CODEBOOKS = 10
DEADLINE_S = 15.0


def record(id_: str, **changes: object) -> VoiceRecord:
    made = VoiceRecord(id=id_, title=id_, transcript="Hello.", codes=bytes(40), codebooks=CODEBOOKS)
    return msgspec.structs.replace(made, **changes)


def renamed(was: VoiceRecord) -> VoiceRecord:
    return msgspec.structs.replace(was, title="renamed")


def fits(voice: Voice) -> bool:
    return voice.codes.shape[0] == CODEBOOKS and int(voice.codes.max()) < 100


def opened(path: Path) -> VoiceLibrary:
    return VoiceLibrary(Folder(path, ".voice"), fits)


def cache_in(path: Path, model: str = "m") -> ClipCache:
    return ClipCache(Folder(path, ".codes"), CODEBOOKS, model, fits)


async def test_voices_are_there_after_a_restart(tmp_path: Path) -> None:
    library = opened(tmp_path)
    await library.add(record("a"))
    await library.add(record("b"))
    await library.change("b", renamed)
    await library.remove("a")
    again = opened(tmp_path)
    assert dict(again.records) == {"b": record("b", title="renamed")}
    assert again.voices["b"].transcript == "Hello."


async def test_what_cannot_be_used_is_left_alone_and_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    library = opened(tmp_path)
    await library.add(record("good"))
    (tmp_path / "broken.voice").write_bytes(b"kfvoice1 and nothing")
    (tmp_path / "moved.voice").write_bytes((tmp_path / "good.voice").read_bytes())
    other = VoiceLibrary(Folder(tmp_path, ".voice"), lambda voice: False)
    assert set(opened(tmp_path).records) == {"good"}
    assert not other.records
    for name in ("broken", "moved", "good"):
        assert f"voice {name}" in caplog.text
        assert (tmp_path / f"{name}.voice").exists()


async def test_there_is_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library_module, "MAX_VOICES", 2)
    library = opened(tmp_path)
    await library.add(record("a"))
    await library.add(record("b"))
    with pytest.raises(BadReference, match="2 voices"):
        await library.add(record("c"))
    await library.change("b", renamed)


async def test_a_voice_that_could_not_be_written_is_not_there(tmp_path: Path) -> None:
    library = opened(tmp_path / "file" / "below")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OSError, match="file"):
        await library.add(record("a"))
    assert not library.voices


async def test_of_two_who_add_a_name_at_once_one_has_it(tmp_path: Path) -> None:
    library = opened(tmp_path)
    outcomes = await asyncio.gather(
        *(library.add(record("a", owner=owner)) for owner in ("anna", "ben")), return_exceptions=True
    )
    assert [type(outcome) for outcome in outcomes] == [type(None), NameTaken]
    assert opened(tmp_path).records["a"].owner == "anna"


async def test_changes_at_once_follow_one_another_and_none_is_lost(tmp_path: Path) -> None:
    library = opened(tmp_path)
    await library.add(record("a", visibility="public"))
    await asyncio.gather(
        library.change("a", renamed),
        library.change("a", lambda was: msgspec.structs.replace(was, visibility="private")),
        library.change("a", lambda was: msgspec.structs.replace(was, id="b")),
    )
    assert dict(opened(tmp_path).records) == {"b": record("b", title="renamed", visibility="private")}


async def test_a_change_does_not_bring_back_what_was_deleted(tmp_path: Path) -> None:
    library = opened(tmp_path)
    await library.add(record("a"))
    outcomes = await asyncio.gather(library.remove("a"), library.change("a", renamed), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [type(None), UnknownVoice]
    assert not opened(tmp_path).records


async def test_a_voice_does_not_move_onto_anothers_name(tmp_path: Path) -> None:
    library = opened(tmp_path)
    await library.add(record("a"))
    await library.add(record("b"))
    with pytest.raises(NameTaken, match="'b'"):
        await library.change("a", lambda was: msgspec.structs.replace(was, id="b"))
    assert dict(opened(tmp_path).records) == {"a": record("a"), "b": record("b")}


async def test_what_may_not_be_deleted_stays(tmp_path: Path) -> None:
    library = opened(tmp_path)
    await library.add(record("a", owner="anna"))
    with pytest.raises(UnknownVoice):
        await library.remove("a", lambda was: was.owner == "ben")
    assert set(opened(tmp_path).records) == {"a"}


class Encoder:
    def __init__(self) -> None:
        self.clips = 0

    async def __call__(self, name: str) -> np.ndarray[tuple[int, int], np.dtype[np.int16]]:
        self.clips += 1
        await asyncio.sleep(0)
        return np.full((CODEBOOKS, 3), self.clips, np.int16)


async def test_a_clip_is_encoded_once_whatever_it_says_and_after_a_restart_too(tmp_path: Path) -> None:
    encode = Encoder()
    cache = cache_in(tmp_path)
    first, second = await asyncio.gather(cache.voice(b"clip", "A.", encode), cache.voice(b"clip", "A.", encode))
    other_text = await cache.voice(b"clip", "B.", encode)
    again = await cache_in(tmp_path).voice(b"clip", "A.", encode)
    assert encode.clips == 1
    assert first is second
    assert (other_text.transcript, again.transcript) == ("B.", "A.")
    assert np.array_equal(again.codes, first.codes)


async def test_codes_of_one_model_are_not_given_to_another(tmp_path: Path) -> None:
    encode = Encoder()
    for model in ("one", "two"):
        await cache_in(tmp_path, model).voice(b"clip", "", encode)
    assert encode.clips == 2


def damage(folder: Path) -> None:
    (path,) = folder.iterdir()
    path.write_bytes(path.read_bytes()[:-1] + b"\xff")


async def test_a_damaged_file_is_encoded_anew(tmp_path: Path) -> None:
    encode = Encoder()
    await cache_in(tmp_path).voice(b"clip", "", encode)
    damage(tmp_path)
    await cache_in(tmp_path).voice(b"clip", "", encode)
    assert encode.clips == 2


async def test_a_disk_that_cannot_be_written_does_not_keep_a_clip_from_speaking(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    cache = cache_in(tmp_path / "file" / "below")
    assert (await cache.voice(b"clip", "", Encoder())).codes.shape == (CODEBOOKS, 3)


async def test_a_clip_that_is_known_waits_for_nobody_elses(tmp_path: Path) -> None:
    known = Encoder()
    await cache_in(tmp_path).voice(b"known", "", known)
    cache, begun, may_end = cache_in(tmp_path), asyncio.Event(), asyncio.Event()

    async def slow(name: str) -> np.ndarray[tuple[int, int], np.dtype[np.int16]]:
        begun.set()
        await may_end.wait()
        return np.zeros((CODEBOOKS, 3), np.int16)

    other = asyncio.create_task(cache.voice(b"new", "", slow))
    await begun.wait()
    async with asyncio.timeout(DEADLINE_S):
        assert (await cache.voice(b"known", "", known)).codes.shape == (CODEBOOKS, 3)
    assert not other.done()
    may_end.set()
    await other
