"""Text of any kind, cut into messages anywhere, in every language: what is cut from it, who says it, how it is read."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Callable, Iterable
from unittest import mock

from realtime.protocol.events import SessionEvent, Speak, UseVoice
from realtime.text import segmenter
from realtime.text.boundaries import MAX_TAG_CHARS, Abbreviations, Mark, mark_at
from realtime.text.languages import LANGUAGES, language_of
from realtime.text.normalizer import normalize
from realtime.text.segmenter import Piece, Segmenter, is_speakable
from realtime.text.speakers import SpeakerSplitter
from tests.session_talk import VOICES, Talk

__all__ = ["TEXT_SEEDS", "TEXT_TARGETS"]

OTHER = "de"
"""A language without rules."""
TAGS = (*LANGUAGES, OTHER)
LONGEST_READING = 24
"""Characters of speech for one that is written: "$7" is "seven dollars", a figure "ninety nine"."""
MAX_TALK_CHARS = 600
"""Of a conversation; the segmenter alone gets everything."""

_SHORT_TAG = re.compile(r"\[[^\W\d_][^\[\]<>]{0,90}\]")

WONDERS = (
    "[pause]", "[soft", "<|speaker:1|>", "<|speaker:0|>", "<|speak", "<break time='1s'/>", "<b>", "]", ">",
    "\u0301", "\u0301" * 9, "\u0903", "\u20dd", "\ufe0f", "\u200d", "\u200c", "\u202e", "\u2066", "\u2069", "\u200f",
    "\ud800", "\udc00", "\ud83d\ude42", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f1eb\U0001f1f7",
    "\U0001f44d\U0001f3fd", "1\ufe0f\u20e3", "x" * 120, "9" * 120, "\u0915\u094d" * 60, ". " * 30, "\n", " \n ", "\0",
    " ", ". ", "! ", "? ", "\u3002", "\u3001", "\u2026 ", " \u2014 ", "\u00ab ", " \u00bb", "\u00bf", "$4.75",
    "3 p.m. ", "p. ej. ", "M. ", "EE. UU. ", "\u00bd", "12:30", "https://a.example/b?c=1", "[label](x)", "&lt;",
    "\u0130", "\u01c5", "[" + "y" * 120 + "]", "<a " + "z " * 80 + ">",
)  # fmt: skip
"""Each stands for a byte that is no UTF-8."""


def text(data: bytes) -> None:
    """Units and turns do not depend on the messages, nothing said is lost, and the work is in proportion."""
    tag, max_chars, sizes, written = _parts(data)
    _cut_laws(written, sizes, max_chars, language_of(tag).abbreviations)
    assert _by_speaker(_messages(written, sizes)) == _by_speaker([written]), "who speaks depends on the messages"


def reading(data: bytes) -> None:
    """What is read of a unit can be spoken, and is in proportion."""
    tag, max_chars, _, written = _parts(data)
    unit = written[:max_chars]
    for romanizes in (False, True):
        spoken = normalize(unit, language_of(tag), romanizes=romanizes)
        assert "<|" not in spoken, "the beginning of a control string is left"
        assert not set(spoken) & set("*#`_|\\"), "markup is left"
        assert not any(unicodedata.category(char) in ("Cc", "Cs") for char in spoken), "a control character is left"
        assert len(spoken) <= LONGEST_READING * len(unit)


def dialogue(data: bytes) -> None:
    """Who is asked to say what does not depend on the messages, where all who speak have voices."""
    tag, max_chars, sizes, written = _parts(data)
    said = written[:MAX_TALK_CHARS].encode("utf-8", "replace").decode()
    if all(speaker < len(VOICES) for speaker, _ in _by_speaker([said])):  # else it ends in an error, there and then
        assert _conversation(_messages(said, sizes), tag, max_chars) == _conversation([said], tag, max_chars)


TEXT_TARGETS: dict[str, Callable[[bytes], None]] = {target.__name__: target for target in (text, reading, dialogue)}


def _parts(data: bytes) -> tuple[str, int, list[int], str]:
    """A language, the longest unit, sizes of four messages that are used in turn, the text."""
    head = data[:6].ljust(6, b"\0")
    return TAGS[head[0] % len(TAGS)], 100 + head[1] % 201, [size + 1 for size in head[2:]], _decoded(data[6:])


def _decoded(data: bytes) -> str:
    pieces: list[str] = []
    while data:
        try:
            pieces.append(data.decode())
            break
        except UnicodeDecodeError as error:
            pieces += [data[: error.start].decode(), WONDERS[data[error.start] % len(WONDERS)]]
            data = data[error.start + 1 :]
    return "".join(pieces)


def _messages(written: str, sizes: list[int]) -> list[str]:
    messages, start = [], 0
    for size in itertools.cycle(sizes):
        if start >= len(written):
            return messages
        messages.append(written[start : start + size])
        start += size
    raise AssertionError("a cycle has no end")


def _cut_laws(written: str, sizes: list[int], max_chars: int, abbreviations: Abbreviations) -> None:
    messages = _messages(written, sizes)
    units, marks = _units([written], max_chars, abbreviations)
    cut, marks_of_cut = _units(messages, max_chars, abbreviations)
    assert cut == units, "units depend on the messages"
    assert all(is_speakable(unit.text) for unit in units)
    assert all(len(unit.text) <= max(max_chars, MAX_TAG_CHARS) for unit in units)
    assert _said(unit.text for unit in units) == _said([written]), "letters are lost"
    for tag in set(_SHORT_TAG.findall(written)):
        assert sum(unit.text.count(tag) for unit in units) == written.count(tag), "a tag is cut"
    # A place is looked at again when the cut fell before it, and with each message while it is held.
    assert marks <= 3 * len(written) + 3 * MAX_TAG_CHARS
    assert marks_of_cut <= 3 * len(written) + (len(messages) + 3) * (max_chars + MAX_TAG_CHARS)


def _units(messages: list[str], max_chars: int, abbreviations: Abbreviations) -> tuple[list[Piece], int]:
    """The units, and how many places of the text were looked at for them."""
    marks = 0

    def counted(at: str, index: int, limit: int, known: Abbreviations, *, is_final: bool) -> Mark | None:
        nonlocal marks
        marks += 1
        return mark_at(at, index, limit, known, is_final=is_final)

    with mock.patch.object(segmenter, "mark_at", counted):
        pieces = Segmenter(max_chars, abbreviations=abbreviations)
        units: list[Piece] = []
        for message in messages:
            units += pieces.feed(message)
            assert len(pieces.held) < max_chars + MAX_TAG_CHARS, "more is held than a tag and a unit"
        units += pieces.flush()
        assert pieces.held == ""
    return units, marks


def _said(texts: Iterable[str]) -> str:
    return "".join(char for written in texts for char in written if char.isalnum())


def _by_speaker(messages: list[str]) -> list[tuple[int, str]]:
    splitter = SpeakerSplitter()
    pieces = [piece for message in messages for piece in splitter.feed(message)] + splitter.flush()
    assert all(said for _, said in pieces)
    runs = itertools.groupby(pieces, key=lambda piece: piece[0])
    return [(speaker, "".join(said for _, said in run)) for speaker, run in runs]


def _conversation(messages: list[str], tag: str, max_chars: int) -> list[SessionEvent]:
    """Who was asked to say what, in a dialogue of two."""
    talk = Talk()
    talk.start(reference_id=list(VOICES), language=tag, chunk_length=max_chars)
    for message in messages:
        talk.send("text", text=message)
        talk.run()
    talk.send("stop")
    talk.run()
    finish = talk.named("finish")
    assert len(finish) == 1
    return [event for event in talk.events if isinstance(event, Speak | UseVoice)]


TEXT_SEEDS = [
    bytes([number, 0, 3, 70, 0, 200]) + seed.encode()
    for number, seed in enumerate(
        (
            "Dr. Rivera has $4.75, [soft] <break time='1s'/> due 3 p.m. v2.10.1. 今天。",
            "<|speaker:1|>¿Qué? Son 3,5 km, p. ej. el n.º 5 a las 3 p. m. EE. UU. « sí »<|speaker:0|>No.",
            "M. Dupont a dit : « Le 1er mai, 3,50 € ! » C’est-à-dire 1 200 fois, etc. Non ?",
            "क्या आप ठीक हैं। هل أنت بخير؟ 今天是Monday，订单3件，共45元。 Straße Nr. 5 🙂",
        )
    )
]
