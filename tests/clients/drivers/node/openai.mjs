// npm openai: speech in two formats, a barge-in by cancelling the body, an error.
import OpenAI from "openai";
import { LONG, TEXTS, note, tell, turn, url } from "./outcome.mjs";

const { speech } = new OpenAI({ apiKey: "k", baseURL: url + "/v1", maxRetries: 0 }).audio;
for (const [index, form] of ["mp3", "wav"].entries()) {
  const answer = await speech.create({ model: "tts-1", voice: "alloy", input: TEXTS[index], response_format: form });
  turn(Buffer.from(await answer.arrayBuffer()), form);
}
const long = await speech.create({ model: "tts-1", voice: "alloy", input: LONG, response_format: "pcm" });
const reader = long.body.getReader();
note({ barge_in_bytes: (await reader.read()).value.length });
await reader.cancel();
try {
  await speech.create({ model: "tts-1", voice: "alloy", input: "" });
} catch (error) {
  note({ error: [error.status, error.message] });
}
tell();
