"""Where a key may be, and which keys are good."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.requests import HTTPConnection

from realtime.errors import BadKey
from realtime.server.auth import check_key, chosen_subprotocol

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


def test_without_keys_everybody_may_come() -> None:
    check_key(connection(), ())


def test_the_subprotocol_is_answered_only_if_it_was_offered() -> None:
    assert chosen_subprotocol(connection(subprotocols=("kingfisher", "key"))) == "kingfisher"
    assert chosen_subprotocol(connection(subprotocols=("token", "key"))) == "token"
    assert chosen_subprotocol(connection(subprotocols=("other",))) is None
    assert chosen_subprotocol(connection()) is None
