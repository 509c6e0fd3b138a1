// npm openai, Realtime (it insists on wss): items and responses, a cancel, a truncation, errors.
import OpenAI from "openai";
import { OpenAIRealtimeWS } from "openai/realtime/ws";
import { LONG, TEXTS, mailbox, note, tell, turn, url } from "./outcome.mjs";

const client = new OpenAI({ apiKey: "k", baseURL: url + "/v1" });
const socket = new OpenAIRealtimeWS({ model: "gpt-realtime" }, client);
const { put, take } = mailbox();
socket.on("event", put);
socket.on("error", (error) => error.error === undefined && put({ type: "broken", message: error.message }));
let sound = [];

async function hear(kind) {
  for (;;) {
    const event = await take();
    if (event.type === "broken") throw new Error(event.message);
    if (event.type === kind) return event;
    if (event.type === "response.output_audio.delta") sound.push(Buffer.from(event.delta, "base64"));
  }
}

function ask(text) {
  const item = { type: "message", role: "user", content: [{ type: "input_text", text }] };
  socket.send({ type: "conversation.item.create", item });
  socket.send({ type: "response.create" });
}

const truncate = (item_id, audio_end_ms) =>
  socket.send({ type: "conversation.item.truncate", item_id, content_index: 0, audio_end_ms });

await hear("session.created");
const output = { voice: "willow", format: { type: "audio/pcm", rate: 24000 } };
socket.send({ type: "session.update", session: { type: "realtime", audio: { output } } });
note({ voice: (await hear("session.updated")).session.audio.output.voice });

ask(TEXTS[0]);
const { response } = await hear("response.done");
turn(Buffer.concat(sound), "pcm24000");
note({ status: response.status, transcript: response.output[0].content[0].transcript });

ask(LONG);
const { item_id } = await hear("response.output_audio.delta");
socket.send({ type: "response.cancel" });
note({ cancelled: (await hear("response.done")).response.status });
truncate(item_id, 20);
note({ truncated_ms: (await hear("conversation.item.truncated")).audio_end_ms });
truncate(item_id, 10_000_000);
note({ clamped_ms: (await hear("conversation.item.truncated")).audio_end_ms });

sound = [];
ask(TEXTS[1]); // the turn after the barge-in, with nothing stale in front
await hear("response.done");
turn(Buffer.concat(sound), "pcm24000");

socket.send({ type: "response.cancel" });
const errors = [(await hear("error")).error];
socket.send({ type: "session.update", session: { type: "realtime", audio: { output: { speed: 9 } } } });
errors.push((await hear("error")).error);
note({ errors: errors.map((error) => [error.type, error.message]) });
socket.close();
tell();
