// Audio events -> the loudspeaker of a browser.

import { KingfisherError, MisuseError } from "./errors.js";
import { canDecodeOpus, OpusDecoder } from "./opus.js";

const RATE_HZ = 48_000;
/** Sound held at most. Beyond, `push` waits; it is far over what a server sends ahead, so only a player that stands
 * still gets there. */
const MAX_QUEUED_MS = 30_000;

/**
 * Events: "suspended" (sound waits, but the browser wants a click first: call `unlock` in one), "started" and
 * "stopped" (sound begins, ends or runs out), "report" (about every 21 ms), "warning" (`detail` is the text).
 * What is pushed while suspended is kept and plays from its beginning.
 */
export class Player extends EventTarget {
  #context;
  #node;
  #decoder = null;
  #utterance = 0;
  #hasSentSuspended = false;
  #messages = 0;
  /** Messages that the last report does not know of yet, oldest first: {number, samples}. */
  #unseen = [];
  #report = { seen: 0, isPlaying: false, queuedSamples: 0, utterance: 0, playedSamples: 0, underruns: 0, targetMs: 0 };
  /** Counts interruptions: what began before one is not played after it. */
  #epoch = 0;
  /** Number of the last message that cleared the queue; reports from before it tell of sound that is gone. */
  #clearing = 0;

  /** Fields for `start.request`: the best format that this browser can play. */
  format;
  /** AnalyserNode behind the output, for meters. */
  analyser;

  /** Resolves with a player. Call it in a click if there is one at hand; else call `unlock` in a later one. */
  static async open() {
    const context = new AudioContext({ sampleRate: RATE_HZ, latencyHint: "interactive" });
    await context.audioWorklet.addModule(new URL("./player-worklet.js", import.meta.url));
    const hasOpus = await canDecodeOpus();
    if (!hasOpus) console.warn("kingfisher: this browser does not decode Opus packets; PCM is used instead");
    return new Player(context, hasOpus);
  }

  /** For `open`. */
  constructor(context, hasOpus) {
    super();
    this.#context = context;
    this.#node = new AudioWorkletNode(context, "kingfisher-player", { numberOfInputs: 0, outputChannelCount: [1] });
    this.#node.port.onmessage = ({ data }) => this.#take(data);
    this.#node.onprocessorerror = () => this.#warn("the audio thread failed");
    this.analyser = new AnalyserNode(context, { fftSize: 2048 });
    this.#node.connect(this.analyser).connect(context.destination);
    this.format = hasOpus ? { format: "opus_packets" } : { format: "pcm", sample_rate: RATE_HZ };
    if (hasOpus) this.#decoder = new OpusDecoder((samples) => this.#post(samples), (error) => this.#warn(error.message));
  }

  /** "running" when sound can be heard, "suspended" while the browser wants a click. */
  get state() {
    return this.#context.state;
  }

  get isPlaying() {
    return this.#report.isPlaying;
  }

  /** Milliseconds of sound that wait to be played. */
  get queuedMs() {
    const unseen = this.#unseen.reduce((sum, { samples }) => sum + samples, 0);
    return ((this.#report.queuedSamples + unseen) * 1000) / RATE_HZ;
  }

  /** How often sound ran out in the middle, and the cushion that playing begins with now. */
  get underruns() {
    return this.#report.underruns;
  }

  get cushionMs() {
    return this.#report.targetMs;
  }

  /** Milliseconds of this utterance that came out of the loudspeaker. */
  playedMs(utterance) {
    if (this.#report.utterance !== utterance) return 0;
    const latencyMs = 1000 * (this.#context.outputLatency || this.#context.baseLatency || 0);
    return Math.max(0, (this.#report.playedSamples * 1000) / RATE_HZ - latencyMs);
  }

  /** Browsers let sound out only after a gesture: call this in a click or key handler. Resolves when running. */
  async unlock() {
    await this.#context.resume();
    this.#hasSentSuspended = false;
  }

  /** Play an audio event after what came before. Resolves when the player can take more. */
  async push(event) {
    const epoch = this.#epoch;
    if (this.#decoder !== null && event.utterance !== this.#utterance) await this.#drainDecoder();
    if (epoch !== this.#epoch) return;
    this.#utterance = event.utterance;
    this.#tellSuspended();
    if (event.packets.length > 0) {
      if (this.#decoder === null) throw new MisuseError("this browser cannot decode Opus: use `format` in the request");
      this.#decoder.decode(event.packets);
    } else {
      this.#post(floats(event.data));
    }
    while (this.queuedMs > MAX_QUEUED_MS && epoch === this.#epoch) await this.#nextReport();
  }

  /** No more for now (after `flushed` or `finish`): play what is held, however short. */
  async end() {
    const epoch = this.#epoch;
    await this.#drainDecoder();
    if (epoch === this.#epoch) this.#send({ kind: "end" });
  }

  /** Resolves when everything that was pushed has been played, or was interrupted. */
  async drained() {
    while (this.queuedMs > 0 || this.isPlaying || this.#unseen.length > 0) await this.#nextReport();
  }

  /** Silence, now. Returns the milliseconds of the current utterance that were heard, for `Stream.cancel`. */
  interrupt() {
    const playedMs = this.playedMs(this.#utterance);
    this.#epoch += 1;
    this.#decoder?.discard();
    this.#unseen = [];
    this.#report = { ...this.#report, queuedSamples: 0 };
    this.#send({ kind: "clear" });
    this.#clearing = this.#messages;
    this.dispatchEvent(new Event("report")); // whoever waits for room has it
    return playedMs;
  }

  async close() {
    this.#epoch += 1;
    this.#decoder?.close();
    await this.#context.close();
    this.dispatchEvent(new Event("report")); // for those who wait for one
  }

  async #drainDecoder() {
    const epoch = this.#epoch;
    try {
      await this.#decoder?.finish();
    } catch (error) {
      if (epoch === this.#epoch) throw new KingfisherError(`the sound could not be decoded: ${error.message}`);
    }
  }

  #post(samples) {
    this.#send({ kind: "push", samples, utterance: this.#utterance }, samples.length, [samples.buffer]);
  }

  #send(message, samples = 0, transfer = []) {
    const number = ++this.#messages;
    this.#unseen.push({ number, samples });
    this.#node.port.postMessage({ ...message, number }, transfer);
  }

  #take(report) {
    if (report.seen < this.#clearing) return;
    const wasPlaying = this.#report.isPlaying;
    this.#report = report;
    while (this.#unseen.length > 0 && this.#unseen[0].number <= report.seen) this.#unseen.shift();
    if (report.isPlaying !== wasPlaying) this.dispatchEvent(new Event(report.isPlaying ? "started" : "stopped"));
    this.dispatchEvent(new Event("report"));
  }

  #nextReport() {
    return new Promise((resolve) => this.addEventListener("report", resolve, { once: true }));
  }

  #tellSuspended() {
    if (this.#context.state === "running" || this.#hasSentSuspended) return;
    this.#hasSentSuspended = true;
    this.dispatchEvent(new Event("suspended"));
  }

  #warn(text) {
    this.dispatchEvent(new CustomEvent("warning", { detail: text }));
  }
}

/** s16le bytes -> Float32Array in [-1, 1). */
function floats(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const samples = new Float32Array(bytes.byteLength >> 1);
  for (let i = 0; i < samples.length; i++) samples[i] = view.getInt16(i * 2, true) / 32_768;
  return samples;
}
