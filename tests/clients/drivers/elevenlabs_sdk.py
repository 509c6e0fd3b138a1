"""The ElevenLabs SDK: HTTP stream, the single socket, character times, an error."""

import base64

from elevenlabs.client import ElevenLabs
from elevenlabs.core import ApiError
from outcome import LONG, TEXTS, Outcome

outcome = Outcome()
client = ElevenLabs(api_key="k", base_url=outcome.url)
speech = client.text_to_speech
speech._ws_base_url = outcome.socket_url  # the SDK would force wss
outcome.turn(b"".join(speech.stream("willow", text=TEXTS[0], output_format="mp3_22050_32")), "mp3")
outcome.turn(
    b"".join(speech.convert_realtime("willow", text=iter([TEXTS[1]]), model_id="m", output_format="pcm_24000")),
    "pcm24000",
)
timed = speech.convert_with_timestamps("willow", text=TEXTS[0], output_format="pcm_24000")
times = timed.alignment
outcome.note(
    times={
        "text": "".join(times.characters),
        "starts_s": times.character_start_times_seconds,
        "ends_s": times.character_end_times_seconds,
        "audio_s": len(base64.b64decode(timed.audio_base_64)) / 48_000,
    }
)
long = speech.stream("willow", text=LONG, output_format="pcm_24000")
outcome.note(barge_in_bytes=len(next(long)), voices=len(client.voices.get_all().voices))
long.close()
try:
    b"".join(speech.stream("willow", text="Hello.", output_format="nonsense_1"))
except ApiError as error:
    outcome.note(error=[error.status_code, str(error.body)])
outcome.tell()
