"""API keys: where a client may put one, and whether it is good. Keys are never logged."""

from __future__ import annotations

import hmac
from collections.abc import Sequence

from starlette.requests import HTTPConnection

from realtime.errors import BadKey

__all__ = ["SUBPROTOCOL", "check_key", "chosen_subprotocol"]

SUBPROTOCOL = "kingfisher"
"""Browsers cannot set headers: they offer the subprotocols [SUBPROTOCOL, KEY]."""


def check_key(connection: HTTPConnection, keys: Sequence[str]) -> None:
    """Raises BadKey unless the connection carries one of `keys` (or there are none)."""
    if not keys:
        return
    given = _given_key(connection)
    if given is None:
        raise BadKey("an API key is needed: Authorization: Bearer KEY, ?api_key=KEY, or the subprotocol pair")
    # Every key is compared, in constant time, so that the time taken tells nothing.
    matches = [hmac.compare_digest(given.encode(), key.encode()) for key in keys]
    if not any(matches):
        raise BadKey("the API key is not known")


def chosen_subprotocol(connection: HTTPConnection) -> str | None:
    """The subprotocol to answer with, if the client offered ours."""
    return SUBPROTOCOL if SUBPROTOCOL in connection.scope.get("subprotocols", []) else None


def _given_key(connection: HTTPConnection) -> str | None:
    scheme, _, token = connection.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token:
        return token.strip()
    if key := connection.query_params.get("api_key"):
        return key
    offered = connection.scope.get("subprotocols", [])
    if SUBPROTOCOL in offered:
        return next((name for name in offered if name != SUBPROTOCOL), None)
    return None
