"""Fish Audio's routes for voices (`/model`), those of the open fish-speech server (`/v1/references`, `/v1/health`),
and the balance, of which there is no end here."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from engine.voices import VOICE_NAME
from realtime.errors import (
    BadRequest,
    ConnectionFault,
    HandshakeRefused,
    Internal,
    NameTaken,
    Overloaded,
    StreamFault,
    UnknownVoice,
)
from realtime.protocol.events import Reference
from realtime.protocol.fish.voices import (
    MAX_CLIPS,
    VoiceForm,
    builtin_entity,
    entity,
    page_of,
    read_form,
    read_page,
)
from realtime.server.body import read_body
from realtime.server.forms import files_of, form_of, texts_of
from realtime.server.guest import Guest
from realtime.server.hub import Hub
from realtime.server.routes.fish import refused
from realtime.voices.record import VoiceRecord

__all__ = ["routes"]

log = logging.getLogger(__name__)

_CREDIT = {
    "_id": "local",
    "user_id": "local",
    "credit": "1000000",
    "created_at": "",
    "updated_at": "",
    "has_phone_sha256": False,
    "has_free_credit": True,
}
_PACKAGE = {
    "_id": "local",
    "user_id": "local",
    "type": "local",
    "total": 1_000_000,
    "balance": 1_000_000,
    "created_at": "",
    "updated_at": "",
    "finished_at": "",
}

Handler = Callable[[Request, Guest], Awaitable[Response]]


def routes(hub: Hub) -> list[BaseRoute]:
    models, references = _Models(hub), _References(hub)

    async def health(_: Request, guest: Guest) -> Response:
        return JSONResponse({"status": "ok"})

    async def credit(_: Request, guest: Guest) -> Response:
        return JSONResponse(_CREDIT)

    async def package(_: Request, guest: Guest) -> Response:
        return JSONResponse(_PACKAGE)

    def guarded(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        return _guarded(hub, handler)

    return [
        Route("/model", guarded(models.listed), methods=["GET"]),
        Route("/model", guarded(models.create), methods=["POST"]),
        Route("/model/{id}", guarded(models.one), methods=["GET"]),
        Route("/model/{id}", guarded(models.update), methods=["PATCH"]),
        Route("/model/{id}", guarded(models.delete), methods=["DELETE"]),
        Route("/v1/health", guarded(health), methods=["GET"]),
        Route("/v1/references/add", guarded(references.add), methods=["POST"]),
        Route("/v1/references/list", guarded(references.listed), methods=["GET"]),
        Route("/v1/references/delete", guarded(references.delete), methods=["DELETE"]),
        Route("/v1/references/update", guarded(references.update), methods=["POST"]),
        Route("/wallet/self/api-credit", guarded(credit), methods=["GET"]),
        Route("/wallet/{user}/api-credit", guarded(credit), methods=["GET"]),
        Route("/wallet/{user}/package", guarded(package), methods=["GET"]),
    ]


def _guarded(hub: Hub, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    """Only for those who may; refusals in Fish's shape."""

    async def handle(request: Request) -> Response:
        try:
            return await handler(request, hub.admit(request))
        except (HandshakeRefused, StreamFault, ConnectionFault) as refusal:
            return refused(refusal)
        except OSError as error:
            log.error("a voice could not be stored: %s", error)
            return refused(Overloaded("the voice store cannot be written now"))
        except Exception:
            log.exception("%s %s failed", request.method, request.url.path)
            return refused(Internal("a fault of the server"))

    return handle


class _Models:
    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def listed(self, request: Request, guest: Guest) -> Response:
        page = read_page(request.query_params)
        records = self._hub.library.records
        uploaded = [entity(records[id_]) for id_ in self._hub.library.voices_for(guest.owner)]
        own = [builtin_entity(v.name, v.description) for v in self._hub.runtime.engine.voices.values()]
        if request.query_params.get("self", "").lower() == "true":
            own = []
        return JSONResponse(page_of([*reversed(uploaded), *own], page))

    async def create(self, request: Request, guest: Guest) -> Response:
        async with form_of(request, self._hub.config.max_message_bytes) as form:
            fields, clips = read_form(texts_of(form)), await files_of(form, "voices")
        if not fields.title:
            raise BadRequest("title is missing")
        if not 1 <= len(clips) <= MAX_CLIPS:
            raise BadRequest(f"voices has {len(clips)} clips; 1 to {MAX_CLIPS} are needed")
        record = await _made(guest, secrets.token_hex(16), fields, clips)
        await self._hub.library.add(record)
        return JSONResponse(entity(record), 201)

    async def one(self, request: Request, guest: Guest) -> Response:
        id_ = request.path_params["id"]
        if (voice := self._hub.runtime.engine.voices.get(id_)) is not None:
            return JSONResponse(builtin_entity(voice.name, voice.description))
        return JSONResponse(entity(_seen(guest, id_)))

    async def update(self, request: Request, guest: Guest) -> Response:
        id_ = request.path_params["id"]
        _check_owned(guest, _seen(guest, id_))  # before its form is read
        async with form_of(request, self._hub.config.max_message_bytes) as form:
            fields = read_form(texts_of(form))
        changes: dict[str, Any] = {
            name: value
            for name in ("title", "description", "tags", "visibility", "languages")
            if (value := getattr(fields, name)) is not None
        }
        return JSONResponse(entity(await _changed(guest, id_, **changes)))

    async def delete(self, request: Request, guest: Guest) -> Response:
        await self._hub.library.remove(request.path_params["id"], guest.may_change)
        return Response(status_code=200)


class _References:
    """The open server's: voices under names that their owner chooses."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def add(self, request: Request, guest: Guest) -> Response:
        async with form_of(request, self._hub.config.max_message_bytes) as form:
            texts, clips = texts_of(form), await files_of(form, "audio")
        id_, text = texts.get("id", [""])[-1], texts.get("text", [""])[-1]
        if not VOICE_NAME.fullmatch(id_):
            raise BadRequest(f"id is {id_[:80]!r}; it must match {VOICE_NAME.pattern}")
        if len(clips) != 1:
            raise BadRequest(f"audio has {len(clips)} clips; one is needed")
        fields = VoiceForm(id_, None, None, (text,), None)
        try:
            self._check_free(id_)  # before its clip is encoded, which takes seconds
            await self._hub.library.add(await _made(guest, id_, fields, clips))
        except NameTaken as taken:
            return JSONResponse({"success": False, "message": str(taken), "reference_id": id_}, 409)
        return JSONResponse({"success": True, "message": "the reference was added", "reference_id": id_})

    async def listed(self, request: Request, guest: Guest) -> Response:
        return JSONResponse({"success": True, "reference_ids": list(guest.voices), "message": "ok"})

    async def delete(self, request: Request, guest: Guest) -> Response:
        id_ = await self._field(request, "reference_id")
        await self._hub.library.remove(id_, guest.may_change)
        return JSONResponse({"success": True, "message": "the reference was deleted", "reference_id": id_})

    async def update(self, request: Request, guest: Guest) -> Response:
        async with form_of(request, self._hub.config.max_message_bytes) as form:
            texts = texts_of(form)
        old, new = texts.get("old_reference_id", [""])[-1], texts.get("new_reference_id", [""])[-1]
        if not VOICE_NAME.fullmatch(new):
            raise BadRequest(f"new_reference_id is {new[:80]!r}; it must match {VOICE_NAME.pattern}")
        self._check_free(new)
        await _changed(guest, old, id=new, title=new)
        body = {"success": True, "message": "the reference was renamed"}
        return JSONResponse(body | {"old_reference_id": old, "new_reference_id": new})

    def _check_free(self, id_: str) -> None:
        """Raises NameTaken: by the model's own voices too."""
        if id_ in self._hub.voices:
            raise NameTaken(f"there is a voice {id_!r} already")

    async def _field(self, request: Request, name: str) -> str:
        """From the query, a JSON body, or a form: its clients do all three."""
        if (value := request.query_params.get(name)) is not None:
            return value
        if "json" in request.headers.get("content-type", ""):
            body = await read_body(request, 1 << 16)
            try:
                return str(msgspec.json.decode(body, type=dict[str, str]).get(name, ""))
            except (msgspec.MsgspecError, RecursionError) as error:
                raise BadRequest(f"body: {error}") from None
        async with form_of(request, 1 << 16) as form:
            return texts_of(form).get(name, [""])[-1]


# ---- what both have in common ------------------------------------------------------------------------------


def _seen(guest: Guest, id_: str) -> VoiceRecord:
    """Raises UnknownVoice, whatever else may lie under such a name: somebody else's voice too."""
    library = guest.hub.library
    if id_ not in library.voices_for(guest.owner):
        raise UnknownVoice(f"there is no uploaded voice {id_[:80]!r}")
    return library.records[id_]


def _check_owned(guest: Guest, record: VoiceRecord) -> None:
    """Raises UnknownVoice."""
    if not guest.may_change(record):
        raise UnknownVoice(f"there is no uploaded voice {record.id[:80]!r} of yours")


async def _changed(guest: Guest, id_: str, **changes: Any) -> VoiceRecord:
    """Raises UnknownVoice where it is gone, or somebody else's by now, and NameTaken."""

    def changed(record: VoiceRecord) -> VoiceRecord:
        _check_owned(guest, record)
        return msgspec.structs.replace(record, **changes, updated_at=_now())

    return await guest.hub.library.change(id_, changed)


async def _made(guest: Guest, id_: str, fields: VoiceForm, clips: list[bytes]) -> VoiceRecord:
    """Encode the clips; several follow one another, as one. Raises BadReference and Overloaded."""
    voice = await guest.hub.cloning.voice(Reference(tuple(clips), " ".join(fields.texts)))
    return VoiceRecord(
        id=id_,
        title=fields.title or id_,
        transcript=voice.transcript,
        codes=voice.codes.astype("<i2").tobytes(),
        codebooks=len(voice.codes),
        description=fields.description or "",
        tags=fields.tags or (),
        visibility=fields.visibility or "private",
        languages=fields.languages or ("en",),
        created_at=_now(),
        updated_at=_now(),
        owner=guest.owner,
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
