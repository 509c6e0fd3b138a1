"""The Cartesia SDK: contexts over the socket with word times, a cancel, bytes over HTTP, an error."""

from cartesia import Cartesia
from outcome import LONG, TEXTS, Outcome

outcome = Outcome()
client = Cartesia(api_key="k", base_url=outcome.url, websocket_base_url=outcome.socket_url)
RAW = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 24_000}
VOICE = {"mode": "id", "id": "willow"}
words: list[str] = []
times: list[float] = []
with client.tts.websocket_connect() as connection:
    context = connection.context(model_id="sonic-3", voice=VOICE, output_format=RAW, add_timestamps=True)
    for word in TEXTS[0].split(" "):
        context.push(word + " ")
    context.no_more_inputs()
    sound = b""
    for message in context.receive():
        if message.type == "chunk":
            sound += message.audio
        elif message.type == "timestamps":
            words += message.word_timestamps.words
            times += message.word_timestamps.start
    outcome.turn(sound, "pcm24000")
    barged = connection.context(model_id="sonic-3", voice=VOICE, output_format=RAW)
    barged.push(LONG)
    first = next(iter(barged.receive()))
    barged.cancel()
    outcome.note(barge_in=first.type, words=words, starts_s=times, audio_s=len(sound) / 48_000)
    wrong = connection.context(model_id="sonic-3", voice=VOICE, output_format={**RAW, "sample_rate": 12_345})
    wrong.push("Hello.")
    wrong.no_more_inputs()
    try:
        outcome.note(error=[str(message) for message in wrong.receive()])
    except Exception as error:
        outcome.note(error=[repr(error)])
wav = {"container": "wav", "encoding": "pcm_s16le", "sample_rate": 24_000}
answer = client.tts.generate(model_id="sonic-3", transcript=TEXTS[1], voice=VOICE, output_format=wav)
outcome.turn(answer.read(), "wav")
outcome.tell()
