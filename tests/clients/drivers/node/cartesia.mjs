// npm cartesia: bytes over HTTP (its socket insists on wss), a barge-in by cancelling the body, an error.
import Cartesia from "@cartesia/cartesia-js";
import { LONG, TEXTS, note, tell, turn, url } from "./outcome.mjs";

const client = new Cartesia({ apiKey: "k", baseURL: url, maxRetries: 0 });
const ask = (transcript, container, sample_rate = 24000) =>
  client.tts.generate({
    model_id: "sonic-3",
    transcript,
    voice: { mode: "id", id: "willow" },
    output_format: { container, encoding: "pcm_s16le", sample_rate },
  });
turn(Buffer.from(await (await ask(TEXTS[0], "wav")).arrayBuffer()), "wav");
turn(Buffer.from(await (await ask(TEXTS[1], "raw")).arrayBuffer()), "pcm24000");
const reader = (await ask(LONG, "raw")).body.getReader();
note({ barge_in_bytes: (await reader.read()).value.length });
await reader.cancel();
try {
  await ask("Hello.", "raw", 12345);
} catch (error) {
  note({ error: [error.status, error.message] });
}
tell();
