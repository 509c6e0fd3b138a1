"""LiveKit's own plugins: two streamed turns on one TTS object, a barge-in, and word times where the plugin has them.

`python livekit_tts.py URL FOLDER PLUGIN`
"""

import asyncio
import sys

import aiohttp
from livekit.agents import APIError, tts
from livekit.plugins import cartesia, deepgram, elevenlabs, fishaudio, openai
from outcome import LONG, TEXTS, Outcome

outcome = Outcome()


def make(name: str, http: aiohttp.ClientSession, key: str = "k") -> tts.TTS:
    url = outcome.url
    match name:
        case "fishaudio":
            return fishaudio.TTS(api_key=key, base_url=url, http_session=http)
        case "elevenlabs":
            return elevenlabs.TTS(api_key=key, base_url=url + "/v1", http_session=http, encoding="pcm_24000")
        case "cartesia":
            return cartesia.TTS(api_key=key, base_url=url, http_session=http)
        case "deepgram":
            return deepgram.TTS(api_key=key, base_url=url + "/v1/speak", http_session=http)
        case _:
            return openai.TTS(api_key=key, base_url=url + "/v1", response_format="wav")


async def speak(speaker: tts.TTS, text: str) -> tuple[bytes, int, list[tuple[str, float]]]:
    if not speaker.capabilities.streaming:
        async with speaker.synthesize(text) as stream:
            frames = [event.frame async for event in stream]
        return b"".join(bytes(frame.data) for frame in frames), frames[0].sample_rate, []
    async with speaker.stream() as stream:
        for word in text.split(" "):
            stream.push_text(word + " ")
        stream.end_input()
        events = [event.frame async for event in stream]
    words = [
        (str(word), float(word.start_time))
        for frame in events
        for word in frame.userdata.get("lk.timed_transcripts", [])
        if getattr(word, "start_time", None)
    ]
    return b"".join(bytes(frame.data) for frame in events), events[0].sample_rate, words


async def barge_in(speaker: tts.TTS) -> str:
    """The framework's: the stream is closed while it speaks."""
    stream = speaker.stream() if speaker.capabilities.streaming else speaker.synthesize(LONG)
    if isinstance(stream, tts.SynthesizeStream):
        stream.push_text(LONG)
        stream.flush()
    async for _ in stream:
        break
    await stream.aclose()
    return "closed"


async def main() -> None:
    async with aiohttp.ClientSession() as http:
        speaker = make(sys.argv[3], http)
        sound, rate, words = await speak(speaker, TEXTS[0])
        outcome.turn(sound, f"pcm{rate}")
        outcome.note(words=words, barge_in=await barge_in(speaker))
        sound, rate, _ = await speak(speaker, TEXTS[1])  # the turn after a barge-in
        outcome.turn(sound, f"pcm{rate}")
        await speaker.aclose()
    outcome.tell()


async def refused() -> None:
    async with aiohttp.ClientSession() as http:
        speaker = make(sys.argv[3], http, key="wrong")
        try:
            await speak(speaker, "Hello.")
        except APIError as error:
            outcome.note(error=repr(error))
        await speaker.aclose()
    outcome.tell()


asyncio.run(refused() if "--wrong-key" in sys.argv else main())
