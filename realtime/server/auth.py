"""API keys: where a client may put one, and whether it is good. Keys are never logged."""

from __future__ import annotations

import hmac
from collections.abc import Sequence

from starlette.requests import HTTPConnection

from realtime.errors import BadKey

__all__ = ["check_key", "chosen_subprotocol"]

SCHEMES = ("bearer", "token")
HEADERS = ("xi-api-key", "x-api-key", "x-vapi-secret")
QUERY = ("api_key", "access_token", "token")
SUBPROTOCOLS = ("kingfisher", "token", "bearer")
"""Browsers cannot set headers: they offer one of these names and the key."""


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
    """The subprotocol to answer with, if the client offered one of ours."""
    offered = connection.scope.get("subprotocols", [])
    return next((name for name in SUBPROTOCOLS if name in offered), None)


def _given_key(connection: HTTPConnection) -> str | None:
    """The first key found; later places are not looked at."""
    headers, query = connection.headers, connection.query_params
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() in SCHEMES and token:
        return token.strip()
    given = [*(headers.get(name) for name in HEADERS), *(query.get(name) for name in QUERY)]
    if (key := next(filter(None, given), None)) is not None:
        return key
    if (protocol := chosen_subprotocol(connection)) is not None:
        return next((name for name in connection.scope["subprotocols"] if name != protocol), None)
    return None
