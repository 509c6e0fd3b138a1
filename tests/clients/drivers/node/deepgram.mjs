// npm deepgram: HTTP in two forms, a barge-in by cancelling the body, an error.
import { DeepgramClient } from "@deepgram/sdk";
import { LONG, TEXTS, note, tell, turn, url } from "./outcome.mjs";

const socket = url.replace("http", "ws");
const environment = { base: url, production: socket, agent: socket, agentRest: url };
const { audio } = new DeepgramClient({ apiKey: "k", environment, maxRetries: 0 }).speak.v1;
const form = { encoding: "linear16", sample_rate: 24000, model: "willow" };
const wav = await audio.generate({ ...form, text: TEXTS[0], container: "wav" });
turn(Buffer.from(await wav.arrayBuffer()), "wav");
const raw = await audio.generate({ ...form, text: TEXTS[1], container: "none" });
turn(Buffer.from(await raw.arrayBuffer()), "pcm24000");
const reader = (await audio.generate({ ...form, text: LONG, container: "none" })).stream().getReader();
note({ barge_in_bytes: (await reader.read()).value.length });
await reader.cancel();
try {
  await audio.generate({ ...form, text: "Hello.", sample_rate: 12345 });
} catch (error) {
  note({ error: [error.statusCode, JSON.stringify(error.body ?? error.message)] });
}
tell();
