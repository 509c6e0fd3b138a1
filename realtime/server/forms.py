"""Forms with files: bounded in bytes and time before anything is parsed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import FormParser, MultiPartException, MultiPartParser
from starlette.requests import Request

from realtime.errors import BadRequest
from realtime.server.body import read_body

__all__ = ["files_of", "form_of", "texts_of"]

MAX_FILES = 32
MAX_FIELDS = 200
MAX_FIELD_BYTES = 64 * 1024


@asynccontextmanager
async def form_of(request: Request, max_bytes: int) -> AsyncIterator[FormData]:
    """Multipart or URL-encoded; its files are closed behind the block. Raises BadRequest and TooBig."""
    body = await read_body(request, max_bytes)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        if kind == "multipart/form-data":
            form = await MultiPartParser(
                request.headers,
                _once(body),
                max_files=MAX_FILES,
                max_fields=MAX_FIELDS,
                max_part_size=MAX_FIELD_BYTES,
            ).parse()
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


async def _once(body: bytes) -> AsyncGenerator[bytes, None]:
    yield body
    yield b""
