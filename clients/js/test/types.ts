// Compiled, never run: what users write must have types.

import { Client, ConnectRefused, Player, ServerError, Speaker, wavFile } from "../kingfisher.js";

export async function save(text: string): Promise<Uint8Array> {
  const client = new Client("ws://127.0.0.1:8000/v1/tts/live", { voice: "rowan", timeouts: { totalMs: 60_000 } });
  const chunks: Uint8Array[] = [];
  for await (const event of client.speak(text, { format: "pcm", sample_rate: 24_000 })) {
    if (event.type === "audio") chunks.push(event.data);
    if (event.type === "finish") console.log(event.ttfaMs?.total, event.usage);
  }
  client.close();
  return wavFile(chunks, 24_000);
}

export async function converse(words: AsyncIterable<string>): Promise<string> {
  const stream = await new Client("wss://example.org/v1/tts/live").stream({ seed: 1 });
  for await (const word of words) stream.sendText(word);
  stream.flush();
  for await (const event of stream) {
    if (event.type === "flushed") stream.cancel(event.audioMs);
    if (event.type === "cancelled") return event.remainingText;
  }
  return "";
}

export async function aloud(): Promise<void> {
  const player = await Player.open();
  player.addEventListener("suspended", () => document.body.addEventListener("click", () => player.unlock()));
  const speaker = new Speaker(new Client("ws://127.0.0.1:8000/v1/tts/live"), player);
  try {
    const finish = await speaker.say(["Hello ", "there."]);
    if (finish === null) console.log("interrupted at", speaker.interrupt());
  } catch (error) {
    if (error instanceof ConnectRefused && error.isRetryable) console.log(error.retryAfterS);
    else if (error instanceof ServerError) console.log(error.code);
    else throw error;
  }
}

export async function clone(clips: Uint8Array[]): Promise<void> {
  const references = clips.map((audio) => ({ audio }));
  const client = new Client("wss://example.org/v1/tts/live");
  await client.stream({ format: "mp3", references, prosody: { speed: 1.2 }, latency: "low", language: "fr-CA" });
}

// @ts-expect-error a format that does not exist
new Client("").stream({ format: "mp4" });


