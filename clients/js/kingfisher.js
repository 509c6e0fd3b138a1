// Client for the Kingfisher speech server. `Client` and `Stream` run in browsers and in Node; `Player` and `Speaker`
// make the sound audible in browsers. Types and short descriptions: kingfisher.d.ts.

export { Client } from "./src/client.js";
export {
  ConnectFailed,
  ConnectRefused,
  DeadlineExceeded,
  KingfisherError,
  MisuseError,
  ProtocolError,
  ServerError,
  StreamBroken,
  StreamError,
} from "./src/errors.js";
export { Player } from "./src/player.js";
export { Speaker } from "./src/speaker.js";
export { Stream } from "./src/stream.js";
export { wavFile } from "./src/wav.js";
