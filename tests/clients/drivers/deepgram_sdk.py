"""The Deepgram SDK: HTTP, the socket with a flush, a clear at a barge-in, an error."""

from deepgram import DeepgramClient, DeepgramClientEnvironment
from deepgram.core.api_error import ApiError
from deepgram.speak.v1.types import SpeakV1Text
from outcome import LONG, TEXTS, Outcome

outcome = Outcome()
environment = DeepgramClientEnvironment(
    base=outcome.url, production=outcome.socket_url, agent=outcome.socket_url, agent_rest=outcome.url
)
client = DeepgramClient(api_key="k", environment=environment)
audio = client.speak.v1.audio
wav = audio.generate(text=TEXTS[0], encoding="linear16", container="wav", sample_rate=24_000, model="willow")
outcome.turn(b"".join(wav), "wav")
with client.speak.v1.connect(model="willow", encoding="linear16", sample_rate=24_000) as socket:
    for word in TEXTS[1].split(" "):
        socket.send_text(SpeakV1Text(text=word + " "))
    socket.send_flush()
    sound = b""
    while not (message := socket.recv()) or getattr(message, "type", "") != "Flushed":
        sound += message if isinstance(message, bytes) else b""
    outcome.turn(sound, "pcm24000")
    socket.send_text(SpeakV1Text(text=LONG))
    socket.send_flush()
    while not isinstance(socket.recv(), bytes):
        pass
    socket.send_clear()
    while isinstance(message := socket.recv(), bytes):
        pass
    outcome.note(barge_in=message.type)
    socket.send_close()
try:
    b"".join(audio.generate(text="Hello.", encoding="linear16", sample_rate=12_345))
except ApiError as error:
    outcome.note(error=[error.status_code, str(error.body)])
outcome.tell()
