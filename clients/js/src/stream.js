// One stream, from `start` to `finish`, on the socket of its client.

import { Deadlines } from "./deadlines.js";
import { DeadlineExceeded, MisuseError, ServerError, StreamBroken, StreamError } from "./errors.js";
import { pack } from "./wire.js";

/** Sound that came and was not taken; more means that nobody takes it. */
const MAX_WAITING_BYTES = 32 << 20;

/** Sending is immediate; events come by `for await (const event of stream)`. Made by `Client.stream`. */
export class Stream {
  #client;
  #request;
  #socket = null;
  #deadlines;
  #timer = null;
  /** What would have to be said again on a new socket; dropped once sound has come. */
  #unheard = [];
  #hasRecovered = false;
  #isStopped = false;
  #flushesOwed = 0;
  #cancelsOwed = 0;
  #cancelledThrough = -1;
  /** Events that were not taken yet, and the bytes of sound in them. */
  #waiting = [];
  #waitingBytes = 0;
  #wake = () => {};
  #error = null;

  /** Milliseconds of sound received so far. */
  audioMs = 0;
  isFinished = false;

  constructor(client, request) {
    this.#client = client;
    this.#request = request;
    this.#deadlines = new Deadlines(client.timeouts, performance.now());
    this.#send("start", { request });
    this.#updateDeadline();
  }

  // ---- sending -----------------------------------------------------------------------------------------

  /** Appended verbatim: the spaces between words are the caller's. */
  sendText(text) {
    this.#checkOpen("sendText");
    this.#send("text", { text });
  }

  /** Speak what was sent; `flushed` follows its last audio. */
  flush() {
    this.#checkOpen("flush");
    this.#flushesOwed += 1;
    this.#updateDeadline();
    this.#send("flush");
  }

  get isStopped() {
    return this.#isStopped;
  }

  /** No more text; the iteration ends with `finish`. */
  stop() {
    this.#checkOpen("stop");
    this.#isStopped = true;
    this.#updateDeadline();
    this.#send("stop");
  }

  /**
   * Barge-in. From here on nothing of the utterance comes out, wherever it still is; `cancelled` tells what was
   * spoken. Text sent afterwards begins the next utterance. After `finish` there is nothing to cancel.
   */
  cancel(playedMs = null) {
    if (this.isFinished || this.#error !== null) return;
    this.#cancelsOwed += 1;
    this.#flushesOwed = 0;
    this.#waiting = this.#waiting.filter(({ type }) => type !== "audio" && type !== "flushed");
    this.#waitingBytes = 0;
    this.#updateDeadline();
    if (this.#unheard.length > 0) this.#unheard = [pack("start", { request: { ...this.#request, text: "" } })];
    this.#send("cancel", { played_ms: playedMs === null ? undefined : Math.round(playedMs) }, false);
  }

  /** End the stream from this side: whoever iterates gets `error`. The socket is closed. */
  fail(error) {
    if (this.isFinished || this.#error !== null) return;
    if (error instanceof StreamError) error.audioMs = this.audioMs;
    this.#error = error;
    clearTimeout(this.#timer);
    if (!(error instanceof ServerError && error.isFinish)) this.#client.close();
    this.#client.release(this, this.#cancelsOwed);
    this.#wake();
  }

  #checkOpen(call) {
    if (this.#error !== null) throw this.#error;
    if (this.isFinished) throw new MisuseError(`${call} after the end of the stream`);
    if (this.#isStopped) throw new MisuseError(`${call} after stop`);
  }

  #send(event, fields, isKept = true) {
    const frame = pack(event, fields);
    const limit = this.#client.maxMessageBytes;
    if (frame.length > limit) {
      throw new MisuseError(`the message has ${frame.length} bytes; the server reads at most ${limit}`);
    }
    if (isKept && this.audioMs === 0) this.#unheard.push(frame);
    this.#socket?.send(frame);
  }

  // ---- receiving ---------------------------------------------------------------------------------------

  async *[Symbol.asyncIterator]() {
    try {
      while (true) {
        while (this.#waiting.length > 0) {
          const event = this.#waiting.shift();
          this.#waitingBytes -= soundBytes(event);
          yield event;
          if (event.type === "finish") return;
        }
        if (this.#error !== null) throw this.#error;
        await new Promise((resolve) => {
          this.#wake = resolve;
        });
      }
    } finally {
      // Nobody wants the rest: closing is the surest cancel, and the next stream gets a clean socket.
      this.close();
    }
  }

  /** Give the stream up if it is not finished. */
  close() {
    this.fail(new MisuseError("the stream was closed"));
  }

  /** For the client: this socket is the stream's now; what was said before is said again. */
  attach(socket) {
    if (this.#error !== null) throw this.#error;
    this.#socket = socket;
    for (const frame of this.#unheard) socket.send(frame);
  }

  /**
   * For the client: the socket is closed. Whether the stream goes on with another one: an idle socket that was
   * closed is replaced once. Once sound has come that would repeat it, and the stream is broken.
   */
  canMove(code, reason) {
    this.#socket = null;
    if (this.audioMs > 0 || this.#hasRecovered || this.#cancelsOwed > 0) {
      this.fail(new StreamBroken(`the connection ended before finish (${code}${reason && `, ${reason}`})`, code));
      return false;
    }
    this.#hasRecovered = true;
    return true;
  }

  /** For the client: an event of the socket. */
  receive(event) {
    if (!this.#isNews(event)) return;
    this.#waiting.push(event);
    this.#waitingBytes += soundBytes(event);
    if (this.#waitingBytes > MAX_WAITING_BYTES) {
      this.fail(new StreamBroken(`${this.#waitingBytes} bytes of sound came and nobody took them`));
    }
    this.#wake();
  }

  /** Keep the books; false for what belongs to an utterance that the caller has cancelled. */
  #isNews(event) {
    const isCurrent = this.#cancelsOwed === 0;
    switch (event.type) {
      case "audio":
        this.audioMs += event.durationMs;
        this.#unheard = [];
        this.#deadlines.heard(performance.now());
        this.#updateDeadline();
        return isCurrent && event.utterance > this.#cancelledThrough;
      case "flushed":
        if (isCurrent) this.#flushesOwed = Math.max(0, this.#flushesOwed - 1);
        this.#updateDeadline();
        return isCurrent;
      case "cancelled":
        this.#cancelsOwed = Math.max(0, this.#cancelsOwed - 1);
        this.#cancelledThrough = event.utterance;
        this.#updateDeadline();
        return true;
      case "finish":
        this.isFinished = true;
        clearTimeout(this.#timer);
        this.#client.release(this, this.#cancelsOwed);
        return true;
      default:
        return true;
    }
  }

  #updateDeadline() {
    if (this.#isStopped || this.#flushesOwed > 0 || this.#cancelsOwed > 0) this.#deadlines.owe(performance.now());
    else this.#deadlines.settle();
    clearTimeout(this.#timer);
    const next = this.#deadlines.next();
    if (next === null) return;
    this.#timer = setTimeout(() => this.fail(new DeadlineExceeded(next.meaning)), next.at - performance.now());
  }
}

function soundBytes({ data, packets }) {
  return (data?.length ?? 0) + (packets ?? []).reduce((sum, packet) => sum + packet.length, 0);
}
