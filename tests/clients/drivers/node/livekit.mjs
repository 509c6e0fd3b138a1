// @livekit/agents with its fishaudio plugin: two turns on one TTS object around a barge-in.
import { initializeLogger } from "@livekit/agents";
import { TTS } from "@livekit/agents-plugin-fishaudio";
import { LONG, TEXTS, framesOf, note, tell, turn, url } from "./outcome.mjs";

initializeLogger({ pretty: false, level: "silent" });
const speaker = new TTS({ apiKey: "k", baseURL: url });

function begin(text) {
  const stream = speaker.stream();
  for (const word of text.split(" ")) stream.pushText(word + " ");
  return stream;
}

async function speak(text) {
  const stream = begin(text);
  stream.endInput();
  turn(...(await framesOf(stream)));
}

await speak(TEXTS[0]);
const barged = begin(LONG);
barged.flush();
for await (const event of barged) if (typeof event !== "symbol") break;
barged.close();
note({ barge_in: "closed" });
await speak(TEXTS[1]);
tell();
