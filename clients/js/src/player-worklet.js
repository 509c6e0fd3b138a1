// The audio thread's side of the player: a jitter buffer, fed by messages, drained by the sound device.

import { JitterBuffer } from "./jitter-buffer.js";

/** Quanta of 128 samples between two reports: about 21 ms at 48 kHz. */
const REPORT_EVERY = 8;

class PlayerProcessor extends AudioWorkletProcessor {
  #buffer = new JitterBuffer(sampleRate);
  #quanta = 0;
  #wasPlaying = false;
  /** Number of the last message that was taken in; tells the player how fresh a report is. */
  #seen = 0;

  constructor() {
    super();
    this.port.onmessage = ({ data }) => this.#take(data);
  }

  #take({ kind, number, samples, utterance }) {
    this.#seen = number;
    if (kind === "push") this.#buffer.push(samples, utterance);
    else if (kind === "end") this.#buffer.end();
    else if (kind === "clear") this.#buffer.clear();
  }

  process(_inputs, outputs) {
    const buffer = this.#buffer;
    const [first, ...others] = outputs[0];
    buffer.pull(first);
    for (const channel of others) channel.set(first);
    const hasTurned = buffer.isPlaying !== this.#wasPlaying;
    this.#wasPlaying = buffer.isPlaying;
    if (++this.#quanta % REPORT_EVERY === 0 || hasTurned) this.#report();
    return true;
  }

  #report() {
    const { isPlaying, queuedSamples, utterance, playedSamples, underruns, targetMs } = this.#buffer;
    this.port.postMessage({ seen: this.#seen, isPlaying, queuedSamples, utterance, playedSamples, underruns, targetMs });
  }
}

registerProcessor("kingfisher-player", PlayerProcessor);
