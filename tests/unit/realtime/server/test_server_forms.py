"""Forms with files: whole, in UTF-8, or refused; read from requests that are made by hand."""

from __future__ import annotations

import pytest

from realtime.errors import BadRequest, TooBig
from realtime.server.forms import MAX_FIELDS, MAX_FILES, files_of, form_of, texts_of
from tests.fuzz.http_targets import posted

TEXT = 'Content-Disposition: form-data; name="{}"'
FILE = 'Content-Disposition: form-data; name="{}"; filename="a.wav"'


def part(head: str, name: str, value: str) -> str:
    return f"--b\r\n{head.format(name)}\r\n\r\n{value}\r\n"


async def read(
    body: str, content_type: str = "multipart/form-data; boundary=b"
) -> tuple[dict[str, list[str]], list[bytes]]:
    async with form_of(posted(body.encode(), content_type), 1 << 20) as form:
        return texts_of(form), await files_of(form, "voices")


async def test_texts_and_files_come_apart() -> None:
    body = part(TEXT, "title", "Zoë") + part(FILE, "voices", "sound") + part(TEXT, "title", "Zoé") + "--b--"
    assert await read(body) == ({"title": ["Zoë", "Zoé"], "voices": []}, [b"sound"])


@pytest.mark.parametrize("head", [TEXT, FILE])
async def test_a_form_that_was_cut_is_refused_and_its_files_are_closed(head: str) -> None:
    """A file that is not closed is a ResourceWarning, which fails the test."""
    with pytest.raises(BadRequest, match="ends before its last boundary"):
        await read(part(TEXT, "title", "Anna") + part(head, "voices", "half of a so"))


@pytest.mark.parametrize("charset", ["punycode", "idna", "utf-7", "zlib", "no-such"])
async def test_only_utf_8_is_read(charset: str) -> None:
    with pytest.raises(BadRequest, match="send UTF-8"):
        await read(part(TEXT, "title", "x" * 60_000) + "--b--", f"multipart/form-data; boundary=b; charset={charset}")


@pytest.mark.parametrize("charset", ["utf-8", "UTF-8", '"utf-8"', "us-ascii"])
async def test_utf_8_may_be_named(charset: str) -> None:
    texts, _ = await read(part(TEXT, "title", "Anna") + "--b--", f"multipart/form-data; boundary=b; charset={charset}")
    assert texts == {"title": ["Anna"]}


@pytest.mark.parametrize(("head", "limit"), [(TEXT, MAX_FIELDS), (FILE, MAX_FILES)])
async def test_parts_are_bounded(head: str, limit: int) -> None:
    await read(part(head, "voices", "x") * limit + "--b--")
    with pytest.raises(BadRequest, match="Too many"):
        await read(part(head, "voices", "x") * (limit + 1) + "--b--")


async def test_a_part_without_end_in_its_head_is_refused() -> None:
    with pytest.raises(BadRequest):
        await read("--b\r\n" + TEXT.format("title") + "\r\n" + "a:\r\n" * 100_000 + "\r\nx\r\n--b--")


async def test_what_is_no_form_or_too_big_is_named() -> None:
    with pytest.raises(BadRequest, match="multipart/form-data"):
        await read("{}", "application/json")
    with pytest.raises(BadRequest, match="boundary"):
        await read("{}", "multipart/form-data")
    with pytest.raises(TooBig):
        await read("x" * (1 << 20) + "y")
