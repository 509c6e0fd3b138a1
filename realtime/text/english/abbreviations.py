"""English abbreviations whose dot may or may not end a sentence."""

from __future__ import annotations

from realtime.text.boundaries import Abbreviations

__all__ = ["ABBREVIATIONS", "TIME_QUALIFIERS"]

TIME_QUALIFIERS = frozenset(
    "monday tuesday wednesday thursday friday saturday sunday mon tue wed thu fri sat sun eastern central mountain "
    "pacific est edt cst cdt mst mdt pst pdt et ct pt gmt utc cet".split()
)

ABBREVIATIONS = Abbreviations(
    never_final=frozenset(
        "dr mr mrs ms prof st gen col sgt capt lt rev hon gov sen rep pres mt "
        "nos fig vol vs cf e.g i.e approx dept".split()
    ),
    maybe_final=frozenset(
        "a.m p.m etc inc ltd co corp est ave blvd rd jr sr d.c ph.d m.d b.a m.a "
        "jan feb mar apr jun jul aug sep sept oct nov dec mon tue wed thu fri sat sun".split()
    ),
    halves_of_day=frozenset(("a.m", "p.m")),
    time_qualifiers=TIME_QUALIFIERS,
    letter_words="I",
)
