"""Links, e-mail addresses and file names as they are spoken."""

from __future__ import annotations

import re
from dataclasses import dataclass

from realtime.text.rules import Rule, rule

__all__ = ["AddressWords", "addresses"]

_CLOSERS = ".,;:!?)'\"”’"
_HOSTS = "com|org|net|edu|gov|io|ai|dev|app|co|uk|eu|de|fr|es|info|example"
_FILES = "txt|py|js|ts|md|pdf|csv|json|xml|html|css|docx?|xlsx?|pptx?|png|jpe?g|gif|svg|zip|exe|ya?ml|toml|mp3|mp4|wav"


@dataclass(frozen=True, slots=True)
class AddressWords:
    """How a language says the marks of an address."""

    dot: str
    slash: str
    at: str
    underscore: str
    plus: str
    dash: str


def addresses(words: AddressWords) -> list[Rule]:
    marks = {".": words.dot, "_": words.underscore, "+": words.plus, "-": words.dash}
    user_marks = str.maketrans({mark: f" {word} " for mark, word in marks.items()})

    def url(match: re.Match[str]) -> str:
        """Scheme, `www.`, query and fragment are left out: nobody says them."""
        address = match[0].rstrip(_CLOSERS)
        closing = match[0][len(address) :]
        address = re.sub(r"^(?:https?://)?(?:www\.)?", "", address, flags=re.IGNORECASE)
        address = re.split(r"[?#]", address)[0].rstrip("/")
        spoken = re.sub(r"[_\-%=&~+:]+", " ", address).replace(".", f" {words.dot} ").replace("/", f" {words.slash} ")
        return f" {spoken}{closing} "

    def email(match: re.Match[str]) -> str:
        user, host = match[0].split("@")
        return f" {user.translate(user_marks)} {words.at} {host.replace('.', f' {words.dot} ')} "

    return [
        # The user's part is bounded (RFC 5321), and so is the work on a long run of letters that is no address.
        rule(r"(?<![A-Za-z0-9._+-])[A-Za-z0-9._+-]{1,64}@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+", email),
        rule(r"(?:https?://|www\.)[^\s<>]+", url, re.IGNORECASE),
        rule(rf"(?<![\w.-])[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+){{0,8}}\.(?:{_HOSTS})(?:/[^\s<>]*)?(?![\w.]\w|\w)", url),
        rule(rf"(?<=\w)\.({_FILES})\b", rf" {words.dot} \1"),
    ]
