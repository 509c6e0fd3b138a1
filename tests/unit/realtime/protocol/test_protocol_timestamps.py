"""The with-timestamp forms: each event's alignment is the whole chunk so far, in seconds from the chunk's beginning."""

from __future__ import annotations

import msgspec

from realtime.audio.chunk import AudioChunk
from realtime.protocol.fish.timestamps import Alignment, Segment, StreamTimes
from realtime.protocol.replies import Audio, WordTiming
from tests.session_talk import Talk


def audio(unit: int | None, text: str = "", *words: WordTiming, ms: float = 500.0, utterance: int = 1) -> Audio:
    return Audio(
        AudioChunk(ms, b"sound"), 0.0, utterance=utterance, seq=0, pts_ms=0.0, unit=unit, text=text, timings=words
    )


def test_an_alignment_is_a_snapshot_of_the_chunk_so_far() -> None:
    times = StreamTimes()
    first = times.take(audio(0, "Hello there.", WordTiming("Hello", 0, 400)))
    second = times.take(audio(0, "", WordTiming("there.", 400, 900)))
    assert first.alignment == Alignment((Segment("Hello", 0.0, 0.4),), 0.5)
    assert second.alignment == Alignment((Segment("Hello", 0.0, 0.4), Segment("there.", 0.4, 0.9)), 1.0)
    assert {(t.content, t.chunk_seq, t.chunk_audio_offset_sec) for t in (first, second)} == {("Hello there.", 0, 0.0)}


def test_times_are_relative_to_the_chunk_and_its_offset_is_the_streams() -> None:
    times = StreamTimes()
    times.take(audio(0, "One.", ms=800.0))
    second = times.take(audio(1, "Two.", WordTiming("Two.", 900, 1_200)))
    assert (second.chunk_seq, second.chunk_audio_offset_sec) == (1, 0.8)
    assert second.alignment == Alignment((Segment("Two.", 0.1, 0.4),), 0.5)


def test_a_chunk_with_an_estimate_in_it_says_so_and_the_next_one_begins_anew() -> None:
    times = StreamTimes()
    times.take(audio(0, "Hello there.", WordTiming("Hello", 0, 400)))
    guessed = times.take(audio(0, "", WordTiming("there.", 400, 900, is_estimate=True)))
    known = times.take(audio(1, "Two.", WordTiming("Two.", 900, 1_200)))
    assert guessed.alignment is not None
    assert known.alignment is not None
    assert b'"is_estimate":true' in msgspec.json.encode(guessed.alignment)
    assert b"is_estimate" not in msgspec.json.encode(known.alignment)


def test_without_times_there_is_no_alignment() -> None:
    assert StreamTimes().take(audio(0, "Hello.")).alignment is None


def test_the_containers_end_belongs_to_the_last_chunk() -> None:
    times = StreamTimes()
    times.take(audio(0, "One.", WordTiming("One.", 0, 300)))
    end = times.take(audio(None, ms=20.0))
    assert (end.content, end.chunk_seq) == ("One.", 0)
    assert end.alignment == Alignment((Segment("One.", 0.0, 0.3),), 0.52)


def test_units_of_the_next_utterance_are_new_chunks_of_the_same_stream() -> None:
    times = StreamTimes()
    times.take(audio(0, "One.", ms=300.0))
    after = times.take(audio(0, "Two.", utterance=2))
    assert (after.content, after.chunk_seq, after.chunk_audio_offset_sec) == ("Two.", 1, 0.3)


def spoken(*, with_timestamps: bool) -> Talk:
    talk = Talk(with_timestamps=with_timestamps)
    for _ in range(2):
        talk.start(text="One sentence. Another one.", format="pcm")
        talk.send("stop")
        talk.run()
    return talk


def test_on_the_socket_each_start_counts_its_chunks_anew() -> None:
    events = spoken(with_timestamps=True).named("audio")
    assert [(event["chunk_seq"], event["content"]) for event in events] == 2 * [
        *3 * [(0, "One sentence.")],
        *3 * [(1, "Another one.")],
    ]
    # Estimated here: known when a chunk is complete, and told behind its sound.
    assert [event["alignment"] is None for event in events] == 4 * [True, True, False]


def test_the_plain_socket_has_none_of_it() -> None:
    for event in spoken(with_timestamps=False).named("audio"):
        assert not {"content", "alignment", "chunk_seq", "chunk_audio_offset_sec"} & set(event)
