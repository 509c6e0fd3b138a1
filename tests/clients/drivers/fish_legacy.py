"""fish-audio-sdk, the legacy API: HTTP that streams, and the socket."""

from fish_audio_sdk import HttpCodeErr, Session, TTSRequest, WebSocketSession
from fish_audio_sdk.exceptions import WebSocketErr
from outcome import LONG, TEXTS, Outcome

outcome = Outcome()
session = Session("k", base_url=outcome.url)
outcome.turn(b"".join(session.tts(TTSRequest(text=TEXTS[0], format="mp3", temperature=0.3))), "mp3")
with WebSocketSession("k", base_url=outcome.url) as socket:
    request = TTSRequest(text="", format="wav", temperature=0.3)
    outcome.turn(b"".join(socket.tts(request, (f"{word} " for word in TEXTS[1].split(" ")))), "wav")
    speech = socket.tts(TTSRequest(text=LONG, format="pcm"), [])
    outcome.note(barge_in_bytes=len(next(speech)))
    speech.close()
    try:
        list(socket.tts(TTSRequest(text="Hello.", format="pcm", sample_rate=12_345), []))
    except WebSocketErr as error:
        outcome.note(error=repr(error))
try:
    list(session.tts(TTSRequest(text="Hello.", format="pcm", sample_rate=12_345)))
except HttpCodeErr as error:
    outcome.note(http_error=[error.status, str(error)])
outcome.tell()
