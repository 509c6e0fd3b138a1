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

__all__ = ["check_key", "chosen_subprotocol"]

SCHEMES = ("bearer", "token")
HEADERS = ("xi-api-key", "x-api-key", "x-vapi-secret")
QUERY = ("api_key", "access_token", "single_use_token", "token")
SUBPROTOCOLS = ("kingfisher", "token", "bearer", "realtime")
"""Browsers cannot set headers: they offer one of these names and the key."""
OPENAI_KEY = "openai-insecure-api-key."
"""The same at OpenAI: the key stands behind this in one name."""


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
    offered: list[str] = connection.scope.get("subprotocols", [])
    if (named := next((name for name in offered if name.startswith(OPENAI_KEY)), None)) is not None:
        return named.removeprefix(OPENAI_KEY)
    if (protocol := chosen_subprotocol(connection)) is not None:
        return next((name for name in offered if name != protocol), None)
    return None
