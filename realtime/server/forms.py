"""Forms with files: bounded in bytes and time before anything is parsed.

Texts are UTF-8, as RFC 7578 has it. Python knows codecs that take a quarter of a second for 60 kB (punycode, idna): one
form that names them would hold the event loop for a minute.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import FormParser, MultiPartException, MultiPartParser
from starlette.requests import Request

from realtime.errors import BadRequest
from realtime.server.body import read_body

__all__ = ["files_of", "form_of", "texts_of"]

MAX_FILES = 32
MAX_FIELDS = 200
MAX_FIELD_BYTES = 64 * 1024
CHARSETS = (b"utf-8", b"us-ascii")


class _WholeForm(MultiPartParser):
    """Knows whether the last boundary came; without it, the part under way is silently left out."""

    has_ended = False

    def on_end(self) -> None:
        self.has_ended = True


@asynccontextmanager
async def form_of(request: Request, max_bytes: int) -> AsyncIterator[FormData]:
    """Multipart or URL-encoded; its files are closed behind the block. Raises BadRequest and TooBig."""
    body = await read_body(request, max_bytes)
    content_type = request.headers.get("content-type", "")
    kind = content_type.partition(";")[0].strip().lower()
    try:
        if kind == "multipart/form-data":
            form = await _multipart(request, content_type, body)
        elif kind == "application/x-www-form-urlencoded":
            form = await FormParser(request.headers, _once(body)).parse()
        else:
            raise BadRequest(f"the body is a form (multipart/form-data), not {kind[:80]!r}")
    except MultiPartException as error:
        raise BadRequest(f"form: {error.message}") from None
    except (KeyError, UnicodeError, ValueError) as error:
        raise BadRequest(f"form: {error}") from None
    try:
        yield form
    finally:
        await form.close()


def texts_of(form: FormData) -> dict[str, list[str]]:
    """The fields that are text, each with all its values."""
    return {name: [v for v in form.getlist(name) if isinstance(v, str)] for name in form}


async def files_of(form: FormData, name: str) -> list[bytes]:
    return [await value.read() for value in form.getlist(name) if isinstance(value, UploadFile)]


async def _multipart(request: Request, content_type: str, body: bytes) -> FormData:
    charset = parse_options_header(content_type)[1].get(b"charset", CHARSETS[0])
    if charset.lower() not in CHARSETS:
        raise BadRequest(f"form: charset is {charset[:80].decode('latin-1')!r}; send UTF-8")

    async def pieces() -> AsyncGenerator[bytes, None]:
        yield body
        if not parser.has_ended:  # raised in here, the parser closes the files that it holds
            raise MultiPartException("it ends before its last boundary")

    parser = _WholeForm(
        request.headers, pieces(), max_files=MAX_FILES, max_fields=MAX_FIELDS, max_part_size=MAX_FIELD_BYTES
    )
    return await parser.parse()


async def _once(body: bytes) -> AsyncGenerator[bytes, None]:
    yield body
    yield b""
