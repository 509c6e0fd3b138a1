// npm elevenlabs: HTTP stream and times, a barge-in by cancelling the body, an error.
import { ElevenLabsClient } from "@elevenlabs/elevenlabs-js";
import { LONG, TEXTS, note, tell, turn, url, whole } from "./outcome.mjs";

const { textToSpeech } = new ElevenLabsClient({ apiKey: "k", baseUrl: url, environment: url });
turn(await whole(await textToSpeech.stream("willow", { text: TEXTS[0], outputFormat: "mp3_22050_32" })), "mp3");
const timed = await textToSpeech.convertWithTimestamps("willow", { text: TEXTS[1], outputFormat: "pcm_24000" });
turn(Buffer.from(timed.audioBase64, "base64"), "pcm24000");
note({ text: timed.alignment.characters.join(""), starts_s: timed.alignment.characterStartTimesSeconds });
const long = await textToSpeech.stream("willow", { text: LONG, outputFormat: "pcm_24000" });
const reader = long.getReader();
note({ barge_in_bytes: (await reader.read()).value.length });
await reader.cancel();
try {
  await whole(await textToSpeech.stream("willow", { text: "", outputFormat: "pcm_24000" }));
} catch (error) {
  note({ error: [error.statusCode, JSON.stringify(error.body ?? error.message)] });
}
tell();
