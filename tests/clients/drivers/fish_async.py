"""fish-audio-sdk, AsyncFishAudio: turns by socket and HTTP, a barge-in, a voice from its making to its end, errors."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

from fishaudio import AsyncFishAudio, TTSConfig
from fishaudio.exceptions import APIError, FishAudioError
from fishaudio.types import FlushEvent
from outcome import LONG, TEXTS, Outcome

outcome = Outcome()
config = TTSConfig(temperature=0.3)


async def words(text: str) -> AsyncIterator[str | FlushEvent]:
    for word in text.split(" "):
        yield word + " "
    yield FlushEvent()


async def main() -> None:
    client = AsyncFishAudio(api_key="k", base_url=outcome.url)
    tts = client.tts
    first = b"".join([piece async for piece in tts.stream_websocket(words(TEXTS[0]), format="wav", config=config)])
    outcome.turn(first, "wav")
    speech = tts.stream_websocket(words(LONG), format="pcm", config=config)
    outcome.note(barge_in_bytes=len(await anext(speech)))
    with suppress(BaseExceptionGroup):  # the SDK wraps the GeneratorExit of a reader that leaves
        await speech.aclose()
    # The turn after the barge-in.
    stream = await tts.stream(text=TEXTS[1], format="mp3", config=config)
    outcome.turn(b"".join([piece async for piece in stream]), "mp3")

    voice = await client.voices.create(title="mine", voices=[first], texts=[TEXTS[0]])
    cloned = await tts.convert(text=TEXTS[1], reference_id=voice.id, format="wav", config=config)
    titles = [item.title for item in (await client.voices.list(self_only=True)).items]
    await client.voices.update(voice.id, title="renamed")
    renamed = (await client.voices.get(voice.id)).title
    await client.voices.delete(voice.id)
    outcome.note(state=voice.state, cloned_bytes=len(cloned), titles=titles, renamed=renamed)
    try:
        await client.voices.get(voice.id)
    except APIError as error:
        outcome.note(gone=[error.status, error.message])
    outcome.note(credit=str((await client.account.get_credits()).credit))
    try:
        await tts.convert(text="Hello.", format="pcm", config=TTSConfig(sample_rate=12_345))
    except APIError as error:
        outcome.note(http_error=[error.status, error.message])
    try:
        async for _ in tts.stream_websocket(words("Hello."), format="pcm", config=TTSConfig(sample_rate=12_345)):
            pass
    except* FishAudioError as errors:  # in a group, as httpx-ws raises from its tasks
        outcome.note(error=repr(errors.exceptions))
    await client.close()
    outcome.tell()


asyncio.run(main())
