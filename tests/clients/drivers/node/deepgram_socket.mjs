// npm deepgram's socket: a turn word by word, a barge-in by Clear, the turn after it, an error at the handshake.
import { DeepgramClient } from "@deepgram/sdk";
import { LONG, TEXTS, mailbox, note, tell, turn, url } from "./outcome.mjs";

const address = url.replace("http", "ws");
const environment = { base: url, production: address, agent: address, agentRest: url };
const { v1 } = new DeepgramClient({ apiKey: "k", environment }).speak;
const form = { encoding: "linear16", sample_rate: 24000, model: "willow", reconnectAttempts: 0 };

const socket = await v1.connect(form);
const { put, take } = mailbox();
socket.on("message", put);
socket.connect();
await socket.waitForOpen();

// The sound up to the message of this kind.
async function hear(kind) {
  const sound = [];
  for (;;) {
    const message = await take();
    if (message instanceof Blob) sound.push(Buffer.from(await message.arrayBuffer()));
    else if (message.type === kind) return Buffer.concat(sound);
  }
}

async function speak(text) {
  for (const word of text.split(" ")) socket.sendText({ type: "Speak", text: word + " " });
  socket.sendFlush({ type: "Flush" });
  turn(await hear("Flushed"), "pcm24000");
}

await speak(TEXTS[0]);
socket.sendText({ type: "Speak", text: LONG });
socket.sendFlush({ type: "Flush" });
while (!((await take()) instanceof Blob));
socket.sendClear({ type: "Clear" });
await hear("Cleared");
note({ barge_in: "Cleared" });
await speak(TEXTS[1]); // with nothing stale in front
socket.close();

const wrong = await v1.connect({ ...form, sample_rate: 12345 });
const failed = new Promise((resolve) => wrong.on("error", resolve));
wrong.connect();
note({ error: String((await failed).message) });
tell();
