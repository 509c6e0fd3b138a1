// @livekit/agents, fishaudio with a wrong key: what the caller learns.
import { initializeLogger } from "@livekit/agents";
import { TTS } from "@livekit/agents-plugin-fishaudio";
import { framesOf, note, tell, url } from "./outcome.mjs";

initializeLogger({ pretty: false, level: "silent" });
const speaker = new TTS({ apiKey: "wrong", baseURL: url });
const failed = new Promise((resolve) => speaker.on("error", resolve));
const stream = speaker.stream({ connOptions: { maxRetry: 0, retryIntervalMs: 0, timeoutMs: 10000 } });
stream.pushText("Hello.");
stream.endInput();
const [{ error, recoverable }] = await Promise.all([failed, framesOf(stream).catch(() => [])]);
note({ error: error.message, recoverable });
tell();
