"""What the load test says: a fixed set in the voice-agent register, short, medium and long mixed."""

from __future__ import annotations

import random

__all__ = ["sentences"]

_OPENERS = ["Thanks for calling", "I can help with that", "One moment please", "Good morning", "Of course"]
_SUBJECTS = ["your order", "the invoice", "that appointment", "the delivery", "your refund", "the booking"]
_VERBS = ["was confirmed", "has been moved", "is on its way", "needs a signature", "will be ready"]
_TIMES = ["this afternoon", "on Friday morning", "within two days", "before noon", "by the end of the week"]
_TAILS = [
    "and you will get a message as soon as anything changes",
    "so there is nothing else you need to do right now",
    "but please keep the reference number close at hand",
    "and our team in the warehouse has already been told",
]
_QUESTIONS = [
    "Is that all right?",
    "Would you like anything else?",
    "Shall I send it by mail?",
    "Does that help?",
]


def sentences(count: int, seed: int = 1) -> list[str]:
    """`count` different texts of 40 to 200 characters; the same for the same seed."""
    rng = random.Random(seed)
    texts: dict[str, None] = {}
    while len(texts) < count:
        core = f"{rng.choice(_SUBJECTS)} {rng.choice(_VERBS)} {rng.choice(_TIMES)}"
        text = f"{rng.choice(_OPENERS)}, {core}."
        if rng.random() < 0.5:
            text = text[:-1] + f", {rng.choice(_TAILS)}."
        if rng.random() < 0.4:
            text += " " + rng.choice(_QUESTIONS)
        if text in texts:
            text += f" That is number {len(texts)}."
        texts[text] = None
    return list(texts)
