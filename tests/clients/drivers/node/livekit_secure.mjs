// @livekit/agents, fishaudio over TLS: synthesize() by HTTP, which insists on https, and a stream over wss.
import { initializeLogger } from "@livekit/agents";
import { TTS } from "@livekit/agents-plugin-fishaudio";
import { TEXTS, framesOf, tell, turn, url } from "./outcome.mjs";

initializeLogger({ pretty: false, level: "silent" });
const speaker = new TTS({ apiKey: "k", baseURL: url });
turn(...(await framesOf(speaker.synthesize(TEXTS[0]))));
const stream = speaker.stream();
stream.pushText(TEXTS[1]);
stream.endInput();
turn(...(await framesOf(stream)));
tell();
