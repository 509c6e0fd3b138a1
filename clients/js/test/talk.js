// Two turns of an agent with a real server, the first interrupted; prints what happened as JSON.
//   node talk.js ws://127.0.0.1:8000/v1/tts/live

import { Client } from "../kingfisher.js";

const client = new Client(process.argv[2], { voice: "low" });
const stream = await client.stream({ format: "pcm", sample_rate: 24_000, max_lead_s: 30 });
const events = [];
const bytes = {};
stream.sendText("The first turn is long enough to be interrupted, as the caller has something to say. ");
stream.flush();
for await (const event of stream) {
  if (event.type === "audio") {
    const isFirst = !(event.utterance in bytes);
    bytes[event.utterance] = (bytes[event.utterance] ?? 0) + event.data.length;
    if (isFirst && Object.keys(bytes).length === 1) {
      stream.cancel(100);
      stream.sendText("The second turn is heard to its end.");
      stream.stop();
    }
  } else {
    events.push(event);
  }
}
client.close();
console.log(JSON.stringify({ events, bytes, connects: client.connects }));
