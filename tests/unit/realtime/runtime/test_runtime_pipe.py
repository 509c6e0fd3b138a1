"""Values that two processes send each other."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from realtime.runtime.pipe import Unpacker, pack


@given(st.lists(st.binary(max_size=300), max_size=8), st.lists(st.integers(1, 400), min_size=1, max_size=8))
def test_wherever_the_bytes_are_cut_the_values_are_those_that_were_packed(
    values: list[bytes], pieces: list[int]
) -> None:
    stream, unpacker, taken = b"".join(map(pack, values)), Unpacker(), []
    while stream:
        for size in pieces:
            taken += unpacker.push(stream[:size])
            stream = stream[size:]
    assert taken == values
