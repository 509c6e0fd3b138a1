"""Short-lived tokens for browsers: what a page holds is worth a minute, and the key stays with its backend.

A token is signed with the key it was made from and stored nowhere: any server with that key takes it, and taking the
key out of the list takes its tokens along. It opens sockets and requests until it expires; one that is open stays so.

    token = "kft_" + expiry (unix seconds, hex) + "_" + nonce (hex) + "_" + HMAC-SHA256(key, the part before) (hex)

Only letters, digits and underscores: it fits into a query, a header and a subprotocol.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence

__all__ = ["TOKEN_S", "make_token", "token_key"]

TOKEN_S = 60
"""Long enough for a page to connect, short enough to be worthless in a log."""

_PREFIX = "kft"


def make_token(key: str, now_s: float) -> str:
    """`now_s`: unix time."""
    signed = f"{_PREFIX}_{int(now_s) + TOKEN_S:x}_{secrets.token_hex(8)}"
    return f"{signed}_{_signature(key, signed)}"


def token_key(token: str, keys: Sequence[str], now_s: float) -> str | None:
    """The key that a good token was made from; None for one that is forged, expired or no token."""
    signed, _, signature = token.rpartition("_")
    parts = signed.split("_")
    if len(parts) != 3 or parts[0] != _PREFIX:
        return None
    # Every key is tried, in constant time, so that the time taken tells nothing.
    signers = [key for key in keys if hmac.compare_digest(_signature(key, signed).encode(), signature.encode())]
    # The expiry is read once its signature is known to be ours.
    return signers[0] if signers and int(parts[1], 16) > now_s else None


def _signature(key: str, signed: str) -> str:
    return hmac.new(key.encode(), signed.encode("utf-8", "replace"), hashlib.sha256).hexdigest()
