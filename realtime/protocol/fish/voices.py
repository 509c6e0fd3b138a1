"""Fish's voice entities (`/model`), in the shape its SDKs insist on, and the forms that make and change them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

import msgspec

from realtime.errors import BadRequest
from realtime.protocol.request import checked_language
from realtime.voices.record import Visibility, VoiceRecord

__all__ = ["MAX_CLIPS", "Page", "VoiceForm", "builtin_entity", "entity", "page_of", "read_form", "read_page"]

MAX_CLIPS = 20
MAX_TITLE_CHARS = 200
MAX_DESCRIPTION_CHARS = 2_000
MAX_TAGS = 20
MAX_PAGE = 100

_AUTHOR = {"_id": "kingfisher", "nickname": "kingfisher", "avatar": ""}
_LONG_AGO = "2026-01-01T00:00:00Z"


class VoiceForm(msgspec.Struct):
    """Fields of a form; None: not sent."""

    title: str | None
    description: str | None
    tags: tuple[str, ...] | None
    texts: tuple[str, ...]
    visibility: Visibility | None
    languages: tuple[str, ...] | None = None
    """Tags of BCP 47, ours: the first says how figures are read where a request does not."""


class Page(msgspec.Struct):
    """Newest first in any case: nothing is scored, and no tasks are counted."""

    size: int
    number: int
    title: str
    tags: frozenset[str]
    language: str
    author: str


def read_form(fields: Mapping[str, Sequence[str]]) -> VoiceForm:
    """Each field with all its values. Lists come repeated, or joined with commas. Raises BadRequest."""
    visibility = _one(fields, "visibility")
    if visibility is not None and visibility not in get_args(Visibility):
        raise BadRequest(f"visibility is {visibility[:80]!r}; choose one of {', '.join(get_args(Visibility))}")
    for name, expected in (("type", "tts"), ("train_mode", "fast")):
        if (given := _one(fields, name) or expected) != expected:
            raise BadRequest(f"{name} is {given[:80]!r}; only {expected!r} is supported")
    tags, languages = _listed(fields, "tags"), _listed(fields, "languages")
    for language in languages:
        checked_language("languages", language)
    if len(languages) > MAX_TAGS:
        raise BadRequest(f"{len(languages)} languages were sent; at most {MAX_TAGS} are kept")
    if len(tags) > MAX_TAGS:
        raise BadRequest(f"{len(tags)} tags were sent; at most {MAX_TAGS} are kept")
    return VoiceForm(
        title=_bounded("title", _one(fields, "title"), MAX_TITLE_CHARS),
        description=_bounded("description", _one(fields, "description"), MAX_DESCRIPTION_CHARS),
        tags=tags if "tags" in fields else None,
        texts=tuple(fields.get("texts", ())),
        visibility=visibility,  # type: ignore[arg-type]  # checked above
        languages=languages or None,
    )


def read_page(query: Mapping[str, str]) -> Page:
    """Raises BadRequest."""
    size, number = _count(query, "page_size", 10), _count(query, "page_number", 1)
    tags = frozenset(filter(None, query.get("tag", "").split(",")))
    language = query.get("language") or query.get("title_language", "")
    title, author = query.get("title", "").lower(), query.get("author_id", "")
    return Page(min(size, MAX_PAGE), number, title, tags, language, author)


def page_of(entities: Sequence[dict[str, Any]], page: Page) -> dict[str, Any]:
    found = [
        item
        for item in entities
        if page.title in item["title"].lower()
        and page.tags <= set(item["tags"])
        and (not page.language or page.language in item["languages"])
        and page.author in ("", item["author"]["_id"])
    ]
    first = page.size * (page.number - 1)
    return {"total": len(found), "items": found[first : first + page.size]}


def entity(record: VoiceRecord) -> dict[str, Any]:
    made = _entity(record.id, record.title, record.description, record.created_at, record.updated_at)
    return made | {"tags": list(record.tags), "languages": list(record.languages), "visibility": record.visibility}


def builtin_entity(name: str, description: str) -> dict[str, Any]:
    """A voice of the model itself."""
    return _entity(name, name, description, _LONG_AGO, _LONG_AGO)


def _entity(id_: str, title: str, description: str, created_at: str, updated_at: str) -> dict[str, Any]:
    return {
        "_id": id_,
        "type": "tts",
        "title": title,
        "description": description,
        "cover_image": "",
        "train_mode": "fast",
        "state": "trained",
        "tags": [],
        "samples": [],
        "created_at": created_at,
        "updated_at": updated_at,
        "languages": ["en"],
        "visibility": "public",
        "lock_visibility": False,
        "like_count": 0,
        "mark_count": 0,
        "shared_count": 0,
        "task_count": 0,
        "liked": False,
        "marked": False,
        "author": _AUTHOR,
    }


def _listed(fields: Mapping[str, Sequence[str]], name: str) -> tuple[str, ...]:
    return tuple(filter(None, (item.strip() for value in fields.get(name, ()) for item in value.split(","))))


def _one(fields: Mapping[str, Sequence[str]], name: str) -> str | None:
    values = fields.get(name, ())
    return values[-1] if values else None


def _bounded(name: str, value: str | None, limit: int) -> str | None:
    if value is not None and len(value) > limit:
        raise BadRequest(f"{name} has {len(value)} characters; at most {limit}")
    return value


def _count(query: Mapping[str, str], name: str, default: int) -> int:
    text = query.get(name) or str(default)
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and int(text) > 0):
        raise BadRequest(f"{name} is {text[:80]!r}; it must be a whole number above 0")
    return int(text)
