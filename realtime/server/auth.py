"""API keys: where a client may put one, and whether it is good. A token made from a key counts as that key. Neither is
ever logged.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Sequence

from starlette.requests import HTTPConnection

from realtime.errors import BadKey
from realtime.server.tokens import token_key

__all__ = ["check_key", "chosen_subprotocol", "owner_of", "secret_of"]

SCHEMES = ("bearer", "token")
HEADERS = ("xi-api-key", "x-api-key", "x-vapi-secret")
QUERY = ("api_key", "access_token", "single_use_token", "token")
SUBPROTOCOLS = ("kingfisher", "token", "bearer", "realtime")
"""Browsers cannot set headers: they offer one of these names and the key."""
OPENAI_KEY = "openai-insecure-api-key."
"""The same at OpenAI: the key stands behind this in one name."""


def check_key(connection: HTTPConnection, keys: Sequence[str], *, takes_tokens: bool = True) -> str | None:
    """Which of `keys` the connection carries, itself or as a token (None: there are no keys). Raises BadKey.

    An entry of `keys` is a key, or the name of its owner, a blank and the key.
    """
    if not keys:
        return None
    given = _given_key(connection)
    if given is None:
        raise BadKey("an API key is needed: Authorization: Bearer KEY, ?api_key=KEY, or the subprotocol pair")
    # Every key is compared, in constant time, so that the time taken tells nothing.
    encoded = given.encode("utf-8", "replace")
    matches = [key for key in keys if hmac.compare_digest(encoded, secret_of(key).encode())]
    if matches:
        return matches[0]
    secrets = {secret_of(key): key for key in keys}
    if takes_tokens and (secret := token_key(given, list(secrets), time.time())) is not None:
        return secrets[secret]
    raise BadKey("the API key is not known")


def secret_of(key: str) -> str:
    """What a client sends, of an entry in the list of keys."""
    return key.rpartition(" ")[2]


def owner_of(key: str | None) -> str:
    """To whom belongs what comes with this key: its owner's name, or else the key's finger print. A name outlives a
    change of keys. Empty where there are no keys."""
    if key is None:
        return ""
    name, _, secret = key.rpartition(" ")
    return f"name:{name}" if name else "key:" + hashlib.sha256(b"kingfisher owner\0" + secret.encode()).hexdigest()[:32]


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
