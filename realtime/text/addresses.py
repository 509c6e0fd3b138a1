"""Links, e-mail addresses and file names as they are spoken."""

from __future__ import annotations

import re

from realtime.text.rules import Rule, rule

__all__ = ["ADDRESSES"]

_CLOSERS = ".,;:!?)'\"”’"
_HOSTS = "com|org|net|edu|gov|io|ai|dev|app|co|uk|eu|de|fr|info|example"
_FILES = "txt|py|js|ts|md|pdf|csv|json|xml|html|css|docx?|xlsx?|pptx?|png|jpe?g|gif|svg|zip|exe|ya?ml|toml|mp3|mp4|wav"


def _url(match: re.Match[str]) -> str:
    """Scheme, `www.`, query and fragment are left out: nobody says them."""
    address = match[0].rstrip(_CLOSERS)
    closing = match[0][len(address) :]
    address = re.sub(r"^(?:https?://)?(?:www\.)?", "", address, flags=re.IGNORECASE)
    address = re.split(r"[?#]", address)[0].rstrip("/")
    spoken = re.sub(r"[_\-%=&~+:]+", " ", address).replace(".", " dot ").replace("/", " slash ")
    return f" {spoken}{closing} "


def _email(match: re.Match[str]) -> str:
    user, host = match[0].split("@")
    spoken = user.replace(".", " dot ").replace("_", " underscore ").replace("+", " plus ").replace("-", " dash ")
    return f" {spoken} at {host.replace('.', ' dot ')} "


ADDRESSES: list[Rule] = [
    # The user's part is bounded (RFC 5321), and so is the work on a long run of letters that is no address.
    rule(r"(?<![A-Za-z0-9._+-])[A-Za-z0-9._+-]{1,64}@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+", _email),
    rule(r"(?:https?://|www\.)[^\s<>]+", _url, re.IGNORECASE),
    rule(rf"(?<![\w.-])[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+){{0,8}}\.(?:{_HOSTS})(?:/[^\s<>]*)?(?![\w.]\w|\w)", _url),
    rule(rf"(?<=\w)\.({_FILES})\b", r" dot \1"),
]
