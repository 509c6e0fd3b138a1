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
