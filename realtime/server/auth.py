"""API keys: where a client may put one, and whether it is good. A token made from a key counts as that key. Neither is
ever logged.
"""

from __future__ import annotations

import hmac
import time
from collections.abc import Sequence

from starlette.requests import HTTPConnection

from realtime.errors import BadKey
from realtime.server.tokens import token_key

__all__ = ["SUBPROTOCOL", "check_key", "chosen_subprotocol"]

SUBPROTOCOL = "kingfisher"
"""Browsers cannot set headers: they offer the subprotocols [SUBPROTOCOL, KEY]."""


def check_key(connection: HTTPConnection, keys: Sequence[str], *, takes_tokens: bool = True) -> str | None:
    """Which of `keys` the connection carries, itself or as a token (None: there are no keys). Raises BadKey."""
    if not keys:
        return None
    given = _given_key(connection)
    if given is None:
        raise BadKey("an API key is needed: Authorization: Bearer KEY, ?api_key=KEY, or the subprotocol pair")
    # Every key is compared, in constant time, so that the time taken tells nothing.
    encoded = given.encode("utf-8", "replace")
    matches = [key for key in keys if hmac.compare_digest(encoded, key.encode())]
    if matches:
        return matches[0]
    if takes_tokens and (key := token_key(given, keys, time.time())) is not None:
        return key
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
