// Messages of the live protocol <-> events. Times are milliseconds, as on the wire (clients/PROTOCOL.md).

import { decode, encode } from "../vendor/msgpack.js";
import { ProtocolError, ServerError } from "./errors.js";

/** A message as bytes. Fields that are undefined are left out. */
export function pack(event, fields = {}) {
  return encode({ event, ...fields }, { ignoreUndefined: true });
}

/**
 * One frame -> an event; null for what this client does not know, and for audio without sound or times.
 * Throws ServerError for every kind of "no", ProtocolError for what is no event at all.
 */
export function parse(frame) {
  const message = unpack(frame);
  const name = message.event;
  if (name === "finish" && message.reason !== "stop") {
    throw new ServerError(String(message.code ?? "error"), String(message.message ?? "the stream failed"), true);
  }
  const read = Object.hasOwn(READERS, name) ? READERS[name] : null;
  if (read !== null) return read(new Fields(name, message));
  // "error", or an event of a later server that carries one: never silence.
  if (message.error) throw new ServerError(String(message.code ?? "error"), String(message.error));
  return null;
}

function unpack(frame) {
  if (!(frame instanceof ArrayBuffer)) throw new ProtocolError("the server sent a text frame");
  let message;
  try {
    message = decode(new Uint8Array(frame));
  } catch (error) {
    throw new ProtocolError(`the server sent what is not msgpack: ${error.message}`);
  }
  if (message === null || typeof message !== "object" || Array.isArray(message) || message instanceof Uint8Array) {
    throw new ProtocolError("the server sent a frame that is no event");
  }
  return message;
}

/** A message's fields, checked for type; null and absent mean the default. */
class Fields {
  constructor(event, message) {
    this.event = event;
    this.message = message;
  }

  #read(name, standard, isRight) {
    const value = this.message[name] ?? null;
    if (value === null) return standard;
    if (!isRight(value)) throw new ProtocolError(`the server sent a broken ${this.event} event: ${name}`);
    return value;
  }

  text(name) {
    return this.#read(name, "", (value) => typeof value === "string");
  }

  number(name) {
    return this.#read(name, 0, (value) => typeof value === "number");
  }

  bytes(name) {
    return this.#read(name, new Uint8Array(0), (value) => value instanceof Uint8Array);
  }

  packets(name) {
    return this.#read(name, [], (v) => Array.isArray(v) && v.every((packet) => packet instanceof Uint8Array));
  }

  map(name, standard) {
    return this.#read(name, standard, (value) => typeof value === "object" && !Array.isArray(value));
  }
}

const READERS = {
  ready: (f) => ({
    type: "ready",
    voice: f.text("voice"),
    sampleRate: f.number("sample_rate"),
    requestId: f.text("request_id"),
    limits: f.map("limits", {}),
  }),
  audio: (f) => {
    const data = f.bytes("audio");
    const packets = f.packets("packets");
    const alignment = f.map("alignment", null);
    if (data.length === 0 && packets.length === 0 && alignment === null) return null;
    return {
      type: "audio",
      utterance: f.number("utterance"),
      seq: f.number("seq"),
      ptsMs: f.number("pts_ms"),
      durationMs: f.number("duration_ms"),
      data,
      packets,
      content: f.text("content"),
      alignment,
      chunkSeq: f.number("chunk_seq"),
      chunkOffsetS: f.number("chunk_audio_offset_sec"),
    };
  },
  flushed: (f) => ({ type: "flushed", seq: f.number("seq"), audioMs: f.number("audio_ms") }),
  cancelled: (f) => ({
    type: "cancelled",
    utterance: f.number("utterance"),
    spokenText: f.text("spoken_text"),
    remainingText: f.text("remaining_text"),
    audioMs: f.number("audio_ms"),
  }),
  warning: (f) => ({ type: "warning", code: f.text("code"), message: f.text("message") }),
  finish: (f) => ({ type: "finish", usage: f.map("usage", {}), ttfaMs: f.map("ttfa_ms", null), timeMs: f.number("time") }),
};
