// A client and a player together: say something aloud, and be interrupted.

import { MisuseError } from "./errors.js";

/** Dispatches each event of its streams under its type ("ready", "audio", …), with the event as `detail`. */
export class Speaker extends EventTarget {
  #client;
  #player;
  /** What is being said: {stream}, its stream null while it opens; null after an interruption, too. */
  #turn = null;
  /** Settles when the last stream is over: a client has one at a time. */
  #over = Promise.resolve();

  constructor(client, player) {
    super();
    this.#client = client;
    this.#player = player;
  }

  get isSpeaking() {
    return this.#turn !== null;
  }

  /**
   * Speak a text, or pieces of it as they come (an iterable, async or not). Resolves with the `finish` event when the
   * last sound has come and is with the player, or with null if it was interrupted; rejects with what ended the
   * stream.
   */
  async say(text, request = {}) {
    if (this.#turn !== null) throw new MisuseError("something is being said; interrupt it first");
    const turn = { stream: null };
    this.#turn = turn;
    const said = this.#over.then(() => this.#speak(turn, text, request));
    this.#over = said.catch(() => {});
    try {
      return await said;
    } finally {
      if (this.#turn === turn) this.#turn = null;
    }
  }

  /**
   * Barge-in: silence at once, before the server knows. The "cancelled" event tells what was spoken. Returns the
   * milliseconds that were heard. (Once `say` has resolved, the server has sent everything and there is nothing to
   * cancel; the sound stops all the same.)
   */
  interrupt() {
    const playedMs = this.#player.interrupt();
    const stream = this.#turn?.stream ?? null;
    this.#turn = null;
    if (stream !== null) {
      stream.cancel(playedMs);
      if (!stream.isStopped && !stream.isFinished) stream.stop();
    }
    return playedMs;
  }

  async #speak(turn, text, request) {
    if (this.#turn !== turn) return null;
    const stream = await this.#client.stream({ ...this.#player.format, ...request });
    if (this.#turn !== turn) {
      stream.close();
      return null;
    }
    turn.stream = stream;
    this.#send(turn, text);
    for await (const event of stream) {
      this.dispatchEvent(new CustomEvent(event.type, { detail: event }));
      if (this.#turn !== turn) continue;
      if (event.type === "audio" && event.durationMs > 0) await this.#player.push(event);
      else if (event.type === "finish") {
        await this.#player.end();
        return event;
      }
    }
    return null;
  }

  async #send(turn, text) {
    const { stream } = turn;
    try {
      for await (const piece of typeof text === "string" ? [text] : text) {
        if (this.#turn !== turn) return;
        stream.sendText(piece);
      }
      if (this.#turn === turn) stream.stop();
    } catch (error) {
      stream.fail(error);
    }
  }
}
