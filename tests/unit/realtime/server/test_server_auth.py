"""Where a key may be, and which keys are good."""

from __future__ import annotations

import time
from typing import Any

import pytest
from starlette.requests import HTTPConnection

from realtime.errors import BadKey
from realtime.server.auth import check_key, chosen_subprotocol, owner_of
from realtime.server.tokens import make_token

KEYS = ("alpha", "beta")


def connection(
    query: str = "", authorization: str | None = None, subprotocols: tuple[str, ...] = (), **more: str
) -> HTTPConnection:
    """`more`: headers, with _ for -."""
    given = more if authorization is None else {"authorization": authorization} | more
    headers = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in given.items()]
    scope: dict[str, Any] = {
        "type": "websocket", "headers": headers, "query_string": query.encode(), "subprotocols": list(subprotocols),
    }  # fmt: skip
    return HTTPConnection(scope)


@pytest.mark.parametrize(
    "good",
    [
        connection(authorization="Bearer beta"),
        connection(authorization="bearer  alpha "),
        connection("voice=x&api_key=alpha"),
        connection(subprotocols=("kingfisher", "beta")),
        connection(subprotocols=("beta", "kingfisher")),
        connection(authorization="Token beta"),
        connection(xi_api_key="alpha"),
        connection(x_api_key="alpha"),
        connection(x_vapi_secret="alpha"),
        connection("access_token=beta"),
        connection("single_use_token=beta"),
        connection("token=beta"),
        connection(subprotocols=("token", "beta")),
    ],
)
def test_a_good_key_is_found(good: HTTPConnection) -> None:
    check_key(good, KEYS)


@pytest.mark.parametrize(
    "bad",
    [
        connection(),
        connection("api_key="),
        connection("api_key=gamma"),
        connection("api_key=alph"),
        connection("api_key=alphaa"),
        connection(authorization="Basic alpha"),
        connection(authorization="alpha"),
        connection(xi_api_key="gamma"),
        connection(subprotocols=("token",)),
        connection(authorization="Bearer g\xfc"),
        connection(authorization="Bearer wrong", query="api_key=alpha"),
        connection(subprotocols=("kingfisher",)),
        connection(subprotocols=("alpha",)),
    ],
)
def test_anything_else_is_refused_without_repeating_it(bad: HTTPConnection) -> None:
    with pytest.raises(BadKey) as caught:
        check_key(bad, KEYS)
    assert not any(word in str(caught.value) for word in ("alpha", "beta", "gamma", "wrong"))


def test_a_key_behind_a_name_is_the_key_alone() -> None:
    keys = ("anna alpha", "beta")
    assert check_key(connection("api_key=alpha"), keys) == "anna alpha"
    assert check_key(connection(f"api_key={make_token('alpha', time.time())}"), keys) == "anna alpha"
    for given in ("anna", "anna alpha", "anna%20alpha"):
        with pytest.raises(BadKey):
            check_key(connection(f"api_key={given}"), keys)


def test_owners_are_told_apart_and_a_name_outlives_its_key() -> None:
    assert owner_of("anna alpha") == owner_of("anna beta") != owner_of("ben alpha")
    assert len({owner_of(key) for key in (None, "alpha", "beta", "name:anna", "anna alpha", "alpha beta")}) == 6
    assert "alpha" not in owner_of("alpha")
    assert owner_of(None) == ""


def test_without_keys_everybody_may_come() -> None:
    check_key(connection(), ())


def test_the_subprotocol_is_answered_only_if_it_was_offered() -> None:
    assert chosen_subprotocol(connection(subprotocols=("kingfisher", "key"))) == "kingfisher"
    assert chosen_subprotocol(connection(subprotocols=("token", "key"))) == "token"
    assert chosen_subprotocol(connection(subprotocols=("other",))) is None
    assert chosen_subprotocol(connection()) is None
