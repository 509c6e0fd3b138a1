"""The Cartesia SDK: contexts over the socket with word times, a cancel and the turn after it, HTTP, an error."""

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
    barged = connection.context(context_id="barged", model_id="sonic-3", voice=VOICE, output_format=RAW)
    barged.push(LONG)
    next(iter(barged.receive()))
    barged.cancel()
    after = connection.context(context_id="after", model_id="sonic-3", voice=VOICE, output_format=RAW)
    after.push(TEXTS[1])
    after.no_more_inputs()
    heard = []  # of all contexts, as it comes over the socket
    while not heard or (heard[-1].context_id, heard[-1].type) != ("after", "done"):
        heard.append(connection.recv())
    names = [message.context_id for message in heard]
    stale = names[names.index("after") :].count("barged")
    outcome.turn(
        b"".join(message.audio for message in heard if (message.context_id, message.type) == ("after", "chunk")),
        "pcm24000",
    )
    outcome.note(stale=stale, words=words, starts_s=times, audio_s=len(sound) / 48_000)
    wrong = connection.context(model_id="sonic-3", voice=VOICE, output_format={**RAW, "sample_rate": 12_345})
    wrong.push("Hello.")
    wrong.no_more_inputs()
    try:
        outcome.note(error=[str(message) for message in wrong.receive()])
    except Exception as error:
        outcome.note(error=[repr(error)])
wav = {"container": "wav", "encoding": "pcm_s16le", "sample_rate": 24_000}
answer = client.tts.generate(model_id="sonic-3", transcript=TEXTS[1], voice=VOICE, output_format=wav)
outcome.note(wav=answer.read()[:4].decode())
outcome.tell()
