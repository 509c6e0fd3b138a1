"""The ElevenLabs SDK's socket as it is: it makes its address wss whatever it was given."""

from elevenlabs.client import ElevenLabs
from outcome import TEXTS, Outcome

outcome = Outcome()
speech = ElevenLabs(api_key="k", base_url=outcome.url).text_to_speech
for text in TEXTS:
    pieces = speech.convert_realtime("willow", text=iter([text]), model_id="m", output_format="pcm_24000")
    outcome.turn(b"".join(pieces), "pcm24000")
outcome.tell()
