// What a driver found: sound in files, the rest as one line of JSON. `node driver.mjs URL FOLDER`.
import { writeFileSync } from "node:fs";
import { join } from "node:path";

export const TEXTS = [
  "Thank you for calling. How can I help you today?",
  "Your order has been shipped and will arrive on Friday.",
];
export const LONG = "This sentence is one of many that nobody is going to hear to its end. ".repeat(12);
export const [url, folder] = process.argv.slice(2);

const found = { turns: [] };

// The sound of the next of TEXTS; `ending` is "wav", "mp3", "ogg", or "pcm24000" for raw s16le at that rate.
export function turn(data, ending) {
  const path = join(folder, `turn${found.turns.length}.${ending}`);
  writeFileSync(path, data);
  found.turns.push(path);
}

export function note(more) {
  Object.assign(found, more);
}

export function tell() {
  console.log(JSON.stringify(found));
  process.exit(0);
}

export async function whole(stream) {
  const pieces = [];
  for await (const piece of stream) pieces.push(Buffer.from(piece));
  return Buffer.concat(pieces);
}

// The sound of a LiveKit stream, and the ending for `turn`.
export async function framesOf(stream) {
  const pieces = [];
  let rate = 0;
  for await (const event of stream) {
    if (typeof event === "symbol") continue;
    rate = event.frame.sampleRate;
    pieces.push(Buffer.from(event.frame.data.buffer, event.frame.data.byteOffset, event.frame.data.byteLength));
  }
  return [Buffer.concat(pieces), `pcm${rate}`];
}

// Messages of a socket that calls back, for one who awaits them in order.
export function mailbox() {
  const messages = [];
  let wake = null;
  return {
    put(message) {
      messages.push(message);
      wake?.();
    },
    async take() {
      while (messages.length === 0) await new Promise((resolve) => (wake = resolve));
      return messages.shift();
    },
  };
}
