// npm fish-audio: turns over the socket (it never closes it itself), a barge-in by closing, an error.
import { FishAudioClient, RealtimeEvents } from "fish-audio";
import { LONG, TEXTS, note, tell, turn, url, whole } from "./outcome.mjs";

const client = new FishAudioClient({ apiKey: "k", baseUrl: url });

async function* words(text) {
  for (const word of text.split(" ")) yield word + " ";
}

async function speak(text, request) {
  const connection = await client.textToSpeech.convertRealtime({ text: "", ...request }, words(text));
  const pieces = [];
  return new Promise((resolve, reject) => {
    connection.on(RealtimeEvents.AUDIO_CHUNK, (piece) => pieces.push(Buffer.from(piece)));
    connection.on(RealtimeEvents.ERROR, reject);
    connection.on(RealtimeEvents.CLOSE, () => resolve(Buffer.concat(pieces)));
  });
}

turn(await speak(TEXTS[0], { format: "wav", temperature: 0.3 }), "wav");
turn(await whole(await client.textToSpeech.convert({ text: TEXTS[1], format: "mp3", temperature: 0.3 })), "mp3");
const barged = await client.textToSpeech.convertRealtime({ text: "", format: "pcm" }, words(LONG));
await new Promise((resolve) => barged.on(RealtimeEvents.AUDIO_CHUNK, resolve));
barged.close();
note({ barge_in: "closed" });
try {
  await whole(await client.textToSpeech.convert({ text: "Hello.", format: "pcm", sample_rate: 12345 }));
} catch (error) {
  note({ error: [error.statusCode, JSON.stringify(error.body ?? error.message)] });
}
tell();
