// Opening a WebSocket, in a browser or in Node, with a typed error that says why it failed.

import { ConnectFailed, ConnectRefused } from "./errors.js";

/** Largest message read, and sent until the server's `ready` says otherwise. */
export const MAX_MESSAGE_BYTES = 16 << 20;

const SUBPROTOCOL = "kingfisher";
/** What a subprotocol may consist of (RFC 9110, "token"); other keys travel in the query. */
const TOKEN = /^[\w!#$%&'*+.^`|~-]+$/;

const isNode = globalThis.process?.versions?.node !== undefined;

/**
 * Open a socket that delivers ArrayBuffers. `onOpen(socket)` is called in the very moment: a listener added later can
 * miss the first message. Rejects with ConnectFailed.
 */
export async function openSocket(url, { apiKey, timeoutMs, onOpen }) {
  const address = parseAddress(url);
  const socket = isNode ? await nodeSocket(address, apiKey) : browserSocket(address, apiKey);
  socket.binaryType = "arraybuffer";
  let timer;
  try {
    await new Promise((resolve, reject) => {
      const opened = () => {
        onOpen(socket);
        resolve();
      };
      socket.addEventListener("open", opened, { once: true });
      socket.addEventListener("error", ({ message }) => whyNot(address, apiKey, message).then(reject), { once: true });
      socket.on?.("unexpected-response", (_, response) => refusal(response).then(reject));
      if (timeoutMs !== null) {
        const message = `${shown(address)}: no answer within ${timeoutMs} ms`;
        timer = setTimeout(() => reject(new ConnectFailed(message)), timeoutMs);
      }
    });
  } catch (error) {
    socket.addEventListener("error", () => {}); // ws reports the close of a handshake under way as an error
    socket.close();
    throw error;
  } finally {
    clearTimeout(timer);
  }
}

function parseAddress(url) {
  let address;
  try {
    address = new URL(url);
  } catch {
    throw new ConnectFailed(`${JSON.stringify(url)} is not an address`);
  }
  if (address.protocol !== "ws:" && address.protocol !== "wss:") {
    throw new ConnectFailed(`the address must begin with ws:// or wss://, not ${address.protocol}`);
  }
  return address;
}

/** The address without its query, which may hold a key. */
function shown(address) {
  return `${address.protocol}//${address.host}${address.pathname}`;
}

async function nodeSocket(address, apiKey) {
  const { WebSocket } = await import("ws");
  const headers = apiKey ? { Authorization: `Bearer ${apiKey}` } : {};
  return new WebSocket(address, { headers, maxPayload: MAX_MESSAGE_BYTES, perMessageDeflate: false });
}

/** Browsers cannot set headers: a key travels as a subprotocol. */
function browserSocket(address, apiKey) {
  if (!apiKey) return new WebSocket(address);
  if (TOKEN.test(apiKey)) return new WebSocket(address, [SUBPROTOCOL, apiKey]);
  const withKey = new URL(address);
  withKey.searchParams.set("api_key", apiKey);
  return new WebSocket(withKey);
}

async function refusal(response) {
  const parts = [];
  for await (const part of response) parts.push(part);
  const body = parseJson(Buffer.concat(parts).toString());
  const retryAfterS = /^\d+$/.test(response.headers["retry-after"] ?? "") ? Number(response.headers["retry-after"]) : null;
  const message = body.message ?? response.statusMessage;
  return new ConnectRefused(response.statusCode, body.code ?? "refused", message, retryAfterS);
}

/**
 * Node says why in its `message`, be it a certificate or a closed port; a refusal has come as a response before.
 * Browsers do not tell a script why a handshake failed. The list of voices is under the same checks, so what it
 * answers is the reason.
 */
async function whyNot(address, apiKey, message) {
  const failed = new ConnectFailed(`${shown(address)}: ${message || "no connection"}`);
  if (isNode) return failed;
  const voices = new URL("../voices", address);
  voices.protocol = address.protocol === "wss:" ? "https:" : "http:";
  voices.search = "";
  let response;
  try {
    response = await fetch(voices, { headers: apiKey ? { Authorization: `Bearer ${apiKey}` } : {} });
  } catch {
    return failed;
  }
  const body = parseJson(await response.text());
  if (!response.ok) return new ConnectRefused(response.status, body.code ?? "refused", body.message ?? response.statusText);
  const voice = address.searchParams.get("voice");
  if (voice !== null && !body.voices?.some(({ name }) => name === voice)) {
    return new ConnectRefused(404, "unknown_voice", `there is no voice ${JSON.stringify(voice)}`);
  }
  return new ConnectFailed(`${shown(address)}: no connection, though the server answers; it may be full`);
}

function parseJson(text) {
  try {
    return Object(JSON.parse(text));
  } catch {
    return {};
  }
}
