// The far side of the wire: a socket that does what a test says. See tests/fake_live_server.py for its twin.

import { createServer } from "node:http";
import { once } from "node:events";
import { Client } from "../kingfisher.js";
import { decode, encode } from "../vendor/msgpack.js";
import { WebSocketServer } from "ws";

/** One socket, seen from the server; pings of clients are not shown. */
class Peer {
  #inbox = [];
  #wake = () => {};
  received = [];

  constructor(socket, connection) {
    this.socket = socket;
    /** Counts sockets from 1. */
    this.connection = connection;
    this.gone = new Promise((resolve) => socket.on("close", resolve));
    socket.on("message", (data) => {
      const message = decode(data);
      if (message.event === "ping") return;
      this.received.push(message);
      this.#inbox.push(message);
      this.#wake();
    });
  }

  async until(event) {
    while (true) {
      while (this.#inbox.length > 0) {
        const message = this.#inbox.shift();
        if (message.event === event) return message;
      }
      await new Promise((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  send(event, fields = {}) {
    this.socket.send(encode({ event, ...fields }));
  }

  /** PCM at 24 kHz. */
  audio(pcm, utterance = 1) {
    this.send("audio", { audio: pcm, utterance, duration_ms: pcm.length / 48 });
  }

  get text() {
    return this.received.map((message) => message.text ?? "").join("");
  }
}

/**
 * Runs `use(server)` while a server runs whose every socket is handed to `behave(peer)`. `refusal` ({status, code,
 * retryAfterS}) turns every handshake down.
 */
export async function withServer(behave, use, { refusal = null } = {}) {
  const peers = [];
  const requests = [];
  const failures = [];
  const http = createServer();
  const sockets = new WebSocketServer({ noServer: true, handleProtocols: (offered) => [...offered][0] });
  http.on("upgrade", (request, tcp, head) => {
    requests.push(request);
    if (refusal !== null) {
      const body = JSON.stringify({ status: refusal.status, code: refusal.code, message: "no" });
      const retry = refusal.retryAfterS === undefined ? "" : `Retry-After: ${refusal.retryAfterS}\r\n`;
      tcp.end(`HTTP/1.1 ${refusal.status} No\r\n${retry}Content-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`);
      return;
    }
    sockets.handleUpgrade(request, tcp, head, (socket) => {
      const peer = new Peer(socket, peers.length + 1);
      peers.push(peer);
      behave(peer).catch((error) => failures.push(error));
    });
  });
  http.listen(0, "127.0.0.1");
  await once(http, "listening");
  try {
    await use({ url: `ws://127.0.0.1:${http.address().port}/v1/tts/live`, peers, requests });
  } finally {
    for (const { socket } of peers) socket.terminate();
    http.closeAllConnections();
    http.close();
  }
  if (failures.length > 0) throw failures[0];
}

export const CHUNK = new Uint8Array(1920).fill(1);
export const CHUNK_MS = 40;

/** Two chunks and a finish for the first stream. */
export async function oneReply(peer) {
  await peer.until("stop");
  peer.audio(CHUNK);
  peer.audio(CHUNK);
  peer.send("finish", { reason: "stop" });
}

/** A chunk and a finish for each stream, its number in the samples. */
export async function replies(peer) {
  for (let number = 1; ; number++) {
    await peer.until("stop");
    peer.audio(new Uint8Array(1920).fill(number), number);
    peer.send("finish", { reason: "stop" });
  }
}

/** Runs `use(client, server)` on a fake server. */
export function withClient(behave, use, { options = {}, ...serverOptions } = {}) {
  return withServer(
    behave,
    async (server) => {
      const client = new Client(server.url, options);
      await use(client, server);
      client.close();
    },
    serverOptions,
  );
}

export async function collect(events) {
  const found = [];
  for await (const event of events) found.push(event);
  return found;
}

export const sound = (events) => events.filter(({ type }) => type === "audio");

/** A promise and its resolve. */
export function signal() {
  let resolve;
  const promise = new Promise((r) => {
    resolve = r;
  });
  return { promise, resolve };
}
