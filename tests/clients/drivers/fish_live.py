"""fish-audio-sdk, the current API: turns over the socket, a barge-in (the reader leaves), an error."""

import time

from fishaudio import AsyncFishAudio, FishAudio, TTSConfig
from fishaudio.exceptions import FishAudioError
from fishaudio.types import FlushEvent
from outcome import LONG, TEXTS, Outcome

outcome = Outcome()
client = FishAudio(api_key="k", base_url=outcome.url)
config = TTSConfig(temperature=0.3)

words = TEXTS[0].split(" ")
stream = client.tts.stream_websocket((f"{word} " for word in words), format="wav", config=config)
outcome.turn(b"".join(stream), "wav")
outcome.turn(b"".join(client.tts.stream_websocket([TEXTS[1], FlushEvent()], format="opus", config=config)), "ogg")

began = time.monotonic()
speech = client.tts.stream_websocket([LONG], format="pcm", config=config)
next(speech)
speech.close()
outcome.note(barge_in_s=time.monotonic() - began)

try:
    b"".join(client.tts.stream_websocket(["Hello."], format="pcm", config=TTSConfig(sample_rate=12_345)))
except FishAudioError as error:
    outcome.note(error=repr(error))

outcome.note(whole_bytes=len(client.tts.convert(text=TEXTS[0], format="mp3")))
outcome.note(async_client=AsyncFishAudio.__name__, voices=client.voices.list(page_size=10).total)
outcome.tell()
