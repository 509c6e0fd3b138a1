"""Voices belong to the key that uploaded them: what one key may see, speak with and change of another's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from realtime.voices.folder import Folder
from tests.e2e.live import Server, all_of, running
from tests.e2e.vendors import http

ANNA, BEN = "anna-key-1", "ben-key-2"
LISTS = ("/v1/voices", "/v2/voices", "/voices", "/model", "/v1/references/list")


def settings(folder: Path, *keys: str) -> dict[str, Any]:
    return {"api_keys": list(keys), "voices_dir": str(folder)}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(config=settings(tmp_path_factory.mktemp("voices"), ANNA, BEN)) as server:
        yield server


async def ask(server: Server, key: str | None, method: str, path: str, **content: Any) -> Any:
    """The answer to whoever has this key."""
    async with http(server) as client:
        return await client.request(method, path, headers={"Authorization": f"Bearer {key}"} if key else {}, **content)


async def uploaded(server: Server, key: str | None, visibility: str = "private") -> str:
    data = {"title": f"A {visibility} voice", "visibility": visibility}
    answer = await ask(server, key, "POST", "/model", data=data, files={"voices": b"sound of a voice"})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["_id"])


async def may_speak(server: Server, key: str, voice: str) -> bool:
    """Over a socket and over HTTP alike."""
    answer = await ask(server, key, "POST", "/v1/tts", json={"text": "Hello.", "voice": voice, "format": "pcm"})
    if answer.status_code == 200:
        async with server.caller(f"api_key={key}&voice={voice}") as caller:
            await caller.hear("ready")
        return True
    with pytest.raises(InvalidStatus) as refused:
        await connect(server.url(f"api_key={key}&voice={voice}"))
    assert (answer.status_code, refused.value.response.status_code) == (404, 404)
    return False


async def is_listed(server: Server, key: str, voice: str) -> bool:
    """In all lists, or in none."""
    listed = {voice in (await ask(server, key, "GET", path, params={"page_size": 100})).text for path in LISTS}
    assert len(listed) == 1
    return listed.pop()


@pytest.mark.parametrize(
    ("visibility", "speaks", "listed"), [("private", False, False), ("unlist", True, False), ("public", True, True)]
)
async def test_what_others_may_do_with_a_voice(server: Server, visibility: str, speaks: bool, listed: bool) -> None:
    voice = await uploaded(server, ANNA, visibility)
    assert await may_speak(server, ANNA, voice)
    assert await is_listed(server, ANNA, voice)
    assert await may_speak(server, BEN, voice) == speaks
    assert await is_listed(server, BEN, voice) == listed
    assert (await ask(server, BEN, "GET", f"/model/{voice}")).status_code == (200 if speaks else 404)


@pytest.mark.parametrize("visibility", ["private", "unlist", "public"])
async def test_only_its_owner_changes_or_deletes_a_voice(server: Server, visibility: str) -> None:
    voice = await uploaded(server, ANNA, visibility)
    renaming = {"old_reference_id": voice, "new_reference_id": f"bens-{visibility}"}
    for answer in (
        await ask(server, BEN, "PATCH", f"/model/{voice}", data={"title": "Ben's now"}),
        await ask(server, BEN, "DELETE", f"/model/{voice}"),
        await ask(server, BEN, "POST", "/v1/references/update", data=renaming),
        await ask(server, BEN, "DELETE", "/v1/references/delete", json={"reference_id": voice}),
    ):
        assert answer.status_code == 404
    assert (await ask(server, ANNA, "GET", f"/model/{voice}")).json()["title"] == f"A {visibility} voice"
    assert (await ask(server, ANNA, "PATCH", f"/model/{voice}", data={"title": "New"})).json()["title"] == "New"
    assert (await ask(server, ANNA, "DELETE", f"/model/{voice}")).status_code == 200


async def test_a_token_is_its_keys(server: Server) -> None:
    voice = await uploaded(server, ANNA)
    token = (await ask(server, ANNA, "POST", "/v1/tokens")).json()["token"]
    assert await may_speak(server, token, voice)
    assert not await may_speak(server, (await ask(server, BEN, "POST", "/v1/tokens")).json()["token"], voice)


async def test_a_name_is_not_taken_over(server: Server) -> None:
    data = {"id": "the-name", "text": "words"}
    assert (await ask(server, ANNA, "POST", "/v1/references/add", data=data, files={"audio": b"a"})).is_success
    taken = await ask(server, BEN, "POST", "/v1/references/add", data=data, files={"audio": b"b"})
    assert taken.status_code == 409
    assert await may_speak(server, ANNA, "the-name")


async def test_a_named_owner_keeps_its_voices_when_its_key_changes(tmp_path: Path) -> None:
    with running(config=settings(tmp_path, "anna old-key", BEN)) as before:
        voice = await uploaded(before, "old-key")
    with running(config=settings(tmp_path, "anna new-key", "anna third-key", BEN)) as after:
        assert await may_speak(after, "new-key", voice)
        assert (await ask(after, "old-key", "GET", "/model")).status_code == 401
        assert not await may_speak(after, BEN, voice)
        assert (await ask(after, "third-key", "DELETE", f"/model/{voice}")).status_code == 200


async def test_voices_made_without_keys_are_everybodys(tmp_path: Path) -> None:
    with running(config=settings(tmp_path)) as before:
        voice = await uploaded(before, None)
    with running(config=settings(tmp_path, ANNA, BEN)) as after:
        assert await may_speak(after, ANNA, voice)
        assert (await ask(after, BEN, "DELETE", f"/model/{voice}")).status_code == 200


async def test_the_keys_are_not_on_disk(tmp_path: Path) -> None:
    with running(config=settings(tmp_path, ANNA)) as server:
        await uploaded(server, ANNA)
    stored = b"".join(data for _, data in Folder(tmp_path, ".voice").read_all())
    assert b"A private voice" in stored
    assert ANNA.encode() not in stored


async def test_of_two_keys_that_add_a_name_at_once_one_has_it(server: Server) -> None:
    """Both see that it is free, and then their clips are encoded."""
    data = {"id": "wanted", "text": "words"}
    answers = await all_of(
        *(
            ask(server, key, "POST", "/v1/references/add", data=data, files={"audio": key.encode()})
            for key in (ANNA, BEN)
        )
    )
    assert sorted(answer.status_code for answer in answers) == [200, 409]
    winner, loser = (ANNA, BEN) if answers[0].status_code == 200 else (BEN, ANNA)
    assert await may_speak(server, winner, "wanted")
    assert not await may_speak(server, loser, "wanted")


async def test_a_change_that_takes_long_to_send_does_not_bring_back_a_deleted_voice(server: Server) -> None:
    voice, is_deleted = await uploaded(server, ANNA), asyncio.Event()

    async def slow_form() -> AsyncIterator[bytes]:
        yield b"title="
        await is_deleted.wait()
        yield b"Back"

    async def delete() -> None:
        assert (await ask(server, ANNA, "DELETE", f"/model/{voice}")).status_code == 200
        is_deleted.set()

    async with http(server) as client:
        headers = {"Authorization": f"Bearer {ANNA}", "Content-Type": "application/x-www-form-urlencoded"}
        change = client.patch(f"/model/{voice}", content=slow_form(), headers=headers)
        answer, _ = await all_of(change, delete())
    assert answer.status_code == 404
    assert (await ask(server, ANNA, "GET", f"/model/{voice}")).status_code == 404
