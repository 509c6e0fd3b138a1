"""Voices of one's own: /model as the SDKs use it and /v1/references; a real server, killed in between."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.live import Server, running
from tests.e2e.vendors import http

KEY = {"Authorization": "Bearer key"}
ENTITY_FIELDS = set(
    "_id type title description cover_image train_mode state tags samples created_at updated_at languages visibility "
    "lock_visibility like_count mark_count shared_count task_count liked marked author".split()
)


def settings(folder: Path) -> dict[str, Any]:
    return {"api_keys": ["key"], "voices_dir": str(folder), "max_message_bytes": 200_000}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(config=settings(tmp_path_factory.mktemp("voices"))) as server:
        yield server


async def create(server: Server, clips: int = 1, **fields: Any) -> httpx.Response:
    files = [("voices", (f"clip{i}.wav", b"sound of a voice %d" % i, "audio/wav")) for i in range(clips)]
    data = {"type": "tts", "train_mode": "fast", "title": "Mine"} | fields
    async with http(server) as client:
        return await client.post("/model", data=data, files=files, headers=KEY)


async def made(server: Server, **fields: Any) -> dict[str, Any]:
    answer = await create(server, **fields)
    assert answer.status_code == 201, answer.text
    return answer.json()  # type: ignore[no-any-return]


async def test_an_entity_has_all_that_the_sdk_insists_on(server: Server) -> None:
    entity = await made(server, description="A voice.", visibility="unlist")
    assert set(entity) == ENTITY_FIELDS
    assert set(entity["author"]) == {"_id", "nickname", "avatar"}
    assert (entity["title"], entity["description"], entity["visibility"]) == ("Mine", "A voice.", "unlist")
    assert (entity["state"], entity["type"], entity["cover_image"]) == ("trained", "tts", "")


@pytest.mark.parametrize("tags", [["a", "b"], ["a, b"]])
async def test_lists_come_repeated_or_joined_with_commas(server: Server, tags: list[str]) -> None:
    assert (await made(server, tags=tags))["tags"] == ["a", "b"]


async def test_a_voice_says_its_languages_and_they_are_tags(server: Server) -> None:
    id_ = (await made(server, languages="es-MX, fr"))["_id"]
    async with http(server) as client:
        listed = (await client.get(f"/model/{id_}", headers=KEY)).json()
        changed = (await client.patch(f"/model/{id_}", data={"languages": "fr"}, headers=KEY)).json()
    assert (listed["languages"], changed["languages"]) == (["es-MX", "fr"], ["fr"])
    refused = await create(server, languages="Spanish!")
    assert refused.status_code == 400
    assert "languages is 'Spanish!'" in refused.text


async def test_a_voice_speaks_is_changed_listed_and_deleted(server: Server) -> None:
    id_ = (await made(server, title="First name"))["_id"]
    async with http(server) as client:
        spoken = await client.post("/v1/tts", json={"text": "Hello there.", "voice": id_, "format": "pcm"}, headers=KEY)
        assert spoken.status_code == 200
        assert len(spoken.content) > 10_000
        patched = await client.patch(f"/model/{id_}", data={"title": "Second name", "tags": "x"}, headers=KEY)
        assert (patched.json()["title"], patched.json()["tags"]) == ("Second name", ["x"])
        one = await client.get(f"/model/{id_}", headers=KEY)
        assert one.json() == patched.json()
        listed = await client.get("/model", params={"title": "second", "self": "true"}, headers=KEY)
        assert [item["_id"] for item in listed.json()["items"]] == [id_]
        assert listed.json()["total"] == 1
        assert (await client.delete(f"/model/{id_}", headers=KEY)).status_code == 200
        for answer in (
            await client.get(f"/model/{id_}", headers=KEY),
            await client.delete(f"/model/{id_}", headers=KEY),
        ):
            assert answer.status_code == 404
            assert isinstance(answer.json()["message"], str)
        gone = await client.post("/v1/tts", json={"text": "Hello.", "voice": id_}, headers=KEY)
        assert gone.status_code == 404


async def test_pages_are_whole_and_do_not_overlap(server: Server) -> None:
    for _ in range(3):
        await made(server, title="Paged")
    async with http(server) as client:
        pages = [
            (await client.get("/model", params={"page_size": 2, "page_number": n}, headers=KEY)).json()
            for n in range(1, 9)
        ]
    ids = [item["_id"] for page in pages for item in page["items"]]
    assert len(ids) == len(set(ids)) == pages[0]["total"]
    assert {"low", "high"} <= set(ids)


async def test_a_list_holds_what_was_asked_for(server: Server) -> None:
    mine = await made(server, title="A Rare Title", tags="rare")
    asks = [{"title": "rare"}, {"tag": "rare"}, {"title": "rare", "author_id": mine["author"]["_id"]}]
    asks += [{"title": "rare", "language": "en"}, {"title": "rare", "title_language": "en", "sort_by": "created_at"}]
    nothing = [{"title": "rarest"}, {"tag": "rare,other"}, {"author_id": "somebody"}, {"language": "xx"}]
    async with http(server) as client:
        found = [(await client.get("/model", params=ask, headers=KEY)).json() for ask in [*asks, *nothing]]
    assert [[item["_id"] for item in page["items"]] for page in found] == [[mine["_id"]]] * 5 + [[]] * 4


@pytest.mark.parametrize(
    ("clips", "fields", "hint"),
    [
        (0, {}, "voices has 0 clips"),
        (21, {}, "voices has 21 clips"),
        (1, {"title": ""}, "title is missing"),
        (1, {"title": "x" * 201}, "201 characters"),
        (1, {"texts": "x" * 1_001}, "1001 characters; at most 1000"),
        (1, {"visibility": "secret"}, "public, unlist, private"),
        (1, {"type": "svc"}, "only 'tts'"),
    ],
)
async def test_a_bad_form_is_refused_and_named(server: Server, clips: int, fields: dict[str, str], hint: str) -> None:
    answer = await create(server, clips, **fields)
    assert answer.status_code == 400
    assert hint in answer.json()["message"]


async def test_an_upload_over_the_limit_is_refused(server: Server) -> None:
    async with http(server) as client:
        files = {"voices": ("a.wav", bytes(300_000))}
        answer = await client.post("/model", data={"title": "Big"}, files=files, headers=KEY)
    assert answer.status_code == 413


@pytest.mark.parametrize("id_", ["..%2f..%2fetc%2fhostname", "a%00b", "x" * 4_000, "clips", "low.voice"])
async def test_ids_that_climb_are_like_any_unknown_one(server: Server, id_: str) -> None:
    async with http(server) as client:
        for method in ("GET", "DELETE", "PATCH"):
            answer = await client.request(method, f"/model/{id_}", headers=KEY)
            assert answer.status_code == 404


@pytest.mark.parametrize("id_", ["../x", "", "low", "a b", "x" * 65])
async def test_a_reference_needs_a_free_and_plain_name(server: Server, id_: str) -> None:
    async with http(server) as client:
        answer = await client.post(
            "/v1/references/add", data={"id": id_, "text": "words"}, files={"audio": b"clip"}, headers=KEY
        )
    assert answer.status_code in (400, 409)


async def test_references_as_the_open_server_has_them(server: Server) -> None:
    async with http(server) as client:
        added = await client.post(
            "/v1/references/add", data={"id": "anna", "text": "words"}, files={"audio": b"clip"}, headers=KEY
        )
        assert added.json()["success"]
        renamed = await client.post(
            "/v1/references/update", data={"old_reference_id": "anna", "new_reference_id": "berta"}, headers=KEY
        )
        assert renamed.json()["success"]
        listed = (await client.get("/v1/references/list", headers=KEY)).json()["reference_ids"]
        assert "berta" in listed
        assert "anna" not in listed
        spoken = await client.post(
            "/v1/tts", json={"text": "Hello.", "reference_id": "berta", "format": "wav"}, headers=KEY
        )
        assert spoken.status_code == 200
        deleted = await client.request("DELETE", "/v1/references/delete", json={"reference_id": "berta"}, headers=KEY)
        assert deleted.json()["success"]
        assert (await client.get("/v1/health", headers=KEY)).json() == {"status": "ok"}


async def test_without_a_key_nothing_is_told_or_changed(server: Server) -> None:
    async with http(server) as client:
        for method, path in (
            ("GET", "/model"),
            ("POST", "/model"),
            ("DELETE", "/model/low"),
            ("GET", "/v1/references/list"),
        ):
            assert (await client.request(method, path)).status_code == 401


async def test_the_balance_is_constant(server: Server) -> None:
    async with http(server) as client:
        credit = (await client.get("/wallet/self/api-credit", headers=KEY)).json()
        package = (await client.get("/wallet/self/package", headers=KEY)).json()
    assert float(credit["credit"]) > 0
    assert package["balance"] == package["total"]


async def test_an_acknowledged_voice_outlives_a_kill(tmp_path: Path) -> None:
    with running(config=settings(tmp_path)) as first:
        id_ = (await made(first, texts="What it says."))["_id"]
        first.process.kill()
        first.process.wait()
    with running(config=settings(tmp_path)) as second:
        async with http(second) as client:
            assert (await client.get(f"/model/{id_}", headers=KEY)).json()["title"] == "Mine"
            answer = await client.post("/v1/tts", json={"text": "Still here.", "voice": id_}, headers=KEY)
        assert answer.status_code == 200
