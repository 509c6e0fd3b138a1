"""The OpenAI SDK: streamed speech in several formats, a barge-in (the reader leaves), an error."""

from openai import BadRequestError, OpenAI
from outcome import LONG, TEXTS, Outcome

outcome = Outcome()
client = OpenAI(api_key="k", base_url=outcome.url + "/v1", max_retries=0)
speech = client.audio.speech
stream = speech.with_streaming_response
for text, form in zip(TEXTS, ("mp3", "wav"), strict=True):
    with stream.create(model="tts-1", voice="alloy", input=text, response_format=form) as answer:
        outcome.turn(b"".join(answer.iter_bytes()), form)
with stream.create(model="tts-1", voice="nova", input=LONG, response_format="pcm") as answer:
    outcome.note(barge_in_bytes=len(next(answer.iter_bytes())))
try:
    speech.create(model="tts-1", voice="alloy", input="")
except BadRequestError as error:
    outcome.note(error=[error.status_code, str(error)])
outcome.note(models=[model.id for model in client.models.list()])
outcome.tell()
