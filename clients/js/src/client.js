// The client: one socket, one stream at a time, any number of streams after one another.

import { ConnectFailed, MisuseError } from "./errors.js";
import { TIMEOUTS } from "./deadlines.js";
import { MAX_MESSAGE_BYTES, openSocket } from "./socket.js";
import { Stream } from "./stream.js";
import { pack, parse } from "./wire.js";

const OPEN = 1;

/** Dispatches "ready" (its `detail` is the event) when the server holds a warm slot, and "close". */
export class Client extends EventTarget {
  #url;
  #apiKey;
  #socket = null;
  #connecting = null;
  #closes = 0;
  #stream = null;
  #strayCancelled = 0;

  timeouts;
  maxMessageBytes = MAX_MESSAGE_BYTES;
  /** Handshakes made so far. */
  connects = 0;

  /** `voice` is prefilled by the server as soon as the socket opens. */
  constructor(url, { apiKey = null, voice = null, timeouts = {} } = {}) {
    super();
    this.#url = voice === null ? url : withVoice(url, voice);
    this.#apiKey = apiKey;
    this.timeouts = { ...TIMEOUTS, ...timeouts };
  }

  /** Be connected: by the socket at hand, or by a new one if it was closed meanwhile. Rejects with ConnectFailed. */
  async connect() {
    if (this.#socket?.readyState === OPEN) return;
    this.#connecting ??= this.#open().finally(() => {
      this.#connecting = null;
    });
    await this.#connecting;
  }

  async #open() {
    const closes = this.#closes;
    const onOpen = (socket) => {
      if (closes === this.#closes) this.#adopt(socket);
      else socket.close();
    };
    await openSocket(this.#url, { apiKey: this.#apiKey, timeoutMs: this.timeouts.connectMs, onOpen });
    if (closes !== this.#closes) throw new ConnectFailed("the client was closed while it connected");
  }

  #adopt(socket) {
    socket.addEventListener("message", ({ data }) => this.#receive(socket, data));
    socket.addEventListener("close", ({ code, reason }) => this.#lose(socket, code, reason));
    // The server closes a socket after one stream unless its client shows that it stays.
    socket.send(pack("ping"));
    this.#socket = socket;
    this.#strayCancelled = 0;
    this.connects += 1;
  }

  /** Open a stream; `request` holds fields of `start.request` (format, voice, sample_rate, seed, …). */
  async stream(request = {}) {
    if (this.#stream !== null) {
      throw new MisuseError("this client has a stream already; use a second client to speak at the same time");
    }
    const stream = new Stream(this, request);
    this.#stream = stream;
    try {
      await this.connect();
      stream.attach(this.#socket);
    } catch (error) {
      stream.fail(error);
      throw error;
    }
    return stream;
  }

  /** Speak a text, or pieces of it as they come (an iterable, async or not), and yield every event to `finish`. */
  async *speak(text, request = {}) {
    const stream = await this.stream(request);
    sendAll(stream, text);
    yield* stream;
  }

  /** Close the socket; a stream on it ends with an error. */
  close() {
    this.#closes += 1;
    const socket = this.#socket;
    this.#socket = null;
    socket?.close();
    this.#stream?.close();
  }

  /** For a stream: it is over, and so many of its cancels will be answered in the next one. */
  release(stream, cancelsOwed) {
    if (this.#stream !== stream) return;
    this.#stream = null;
    this.#strayCancelled = cancelsOwed;
  }

  #receive(socket, frame) {
    if (socket !== this.#socket) return;
    let event;
    try {
      event = parse(frame);
    } catch (error) {
      this.#stream?.fail(error);
      return;
    }
    if (event === null) return;
    if (event.type === "cancelled" && this.#strayCancelled > 0) {
      this.#strayCancelled -= 1;
      return;
    }
    if (event.type === "ready") {
      this.maxMessageBytes = event.limits.max_message_bytes ?? this.maxMessageBytes;
      this.dispatchEvent(new CustomEvent("ready", { detail: event }));
    }
    this.#stream?.receive(event);
  }

  async #lose(socket, code, reason) {
    if (socket !== this.#socket) return;
    this.#socket = null;
    this.dispatchEvent(new Event("close"));
    const stream = this.#stream;
    if (stream === null || !stream.canMove(code, reason)) return;
    try {
      await this.connect();
      stream.attach(this.#socket);
    } catch (error) {
      stream.fail(error);
    }
  }
}

/** A failure here, be it of the caller's iterator, must reach whoever waits for the audio. */
async function sendAll(stream, text) {
  try {
    for await (const piece of typeof text === "string" ? [text] : text) stream.sendText(piece);
    stream.stop();
  } catch (error) {
    stream.fail(error);
  }
}

function withVoice(url, voice) {
  if (!URL.canParse(url)) return url; // connecting says so
  const address = new URL(url);
  address.searchParams.set("voice", voice);
  return address.href;
}
