// npm cartesia's socket (it insists on wss): contexts with word times, a barge-in by cancel, an error.
import Cartesia from "@cartesia/cartesia-js";
import { LONG, TEXTS, note, tell, turn, url } from "./outcome.mjs";

const client = new Cartesia({ apiKey: "k", baseURL: url });
const socket = await client.tts.websocket();
socket.on("error", () => {}); // each also reaches the context it belongs to
const raw = { container: "raw", encoding: "pcm_s16le", sample_rate: 24000 };
const open = (more) =>
  socket.context({ model_id: "sonic-3", voice: { mode: "id", id: "willow" }, output_format: raw, ...more });

async function speak(text) {
  const context = open({ add_timestamps: true });
  for (const word of text.split(" ")) await context.push({ transcript: word + " " });
  await context.no_more_inputs();
  const sound = [];
  const words = [];
  for await (const message of context.receive()) {
    if (message.type === "chunk") sound.push(message.audio ?? Buffer.from(message.data, "base64"));
    if (message.type === "timestamps") words.push(...message.word_timestamps.words);
  }
  turn(Buffer.concat(sound), "pcm24000");
  return words;
}

note({ words: await speak(TEXTS[0]) });

const barged = open();
await barged.push({ transcript: LONG, flush: true });
for await (const message of barged.receive()) {
  if (message.type !== "chunk") continue;
  await barged.cancel();
  break;
}
const names = [];
socket.on("event", (event) => names.push(event.context_id));
await speak(TEXTS[1]); // the turn after the barge-in
const next = names.findIndex((name) => name !== barged.contextId);
note({ stale: names.slice(next).filter((name) => name === barged.contextId).length });

const wrong = open({ output_format: { ...raw, sample_rate: 12345 } });
await wrong.push({ transcript: "Hello." });
await wrong.no_more_inputs();
try {
  for await (const _ of wrong.receive());
} catch (error) {
  note({ error: error.message });
}
socket.close();
tell();
