// When a stream has waited long enough for its server. Pure: the time is an argument, in milliseconds of one clock.

/** Longest waits; null waits for ever. The server paces: a gap can be as long as `max_lead_s`. */
export const TIMEOUTS = Object.freeze({
  connectMs: 10_000,
  /** From the moment audio is owed (`stop`, `flush`) to the first of it. */
  firstAudioMs: 30_000,
  /** Between two audio events while more is owed. */
  audioGapMs: 30_000,
  /** From `start` to `finish`. */
  totalMs: null,
});

/** The audio deadlines run only while something is owed: an agent between two turns waits for nothing. */
export class Deadlines {
  #timeouts;
  #began;
  #since = null;
  #hasAudio = false;

  constructor(timeouts, now) {
    this.#timeouts = timeouts;
    this.#began = now;
  }

  /** The server was asked for something. What is owed already keeps its clock. */
  owe(now) {
    if (this.#since === null) {
      this.#since = now;
      this.#hasAudio = false;
    }
  }

  /** Audio came. */
  heard(now) {
    if (this.#since !== null) {
      this.#since = now;
      this.#hasAudio = true;
    }
  }

  /** Nothing is owed any more. */
  settle() {
    this.#since = null;
  }

  /** The nearest deadline as {at, meaning}, or null. */
  next() {
    const { firstAudioMs, audioGapMs, totalMs } = this.#timeouts;
    const candidates = [];
    if (totalMs !== null) candidates.push({ at: this.#began + totalMs, meaning: `the stream took over ${totalMs} ms` });
    const wait = this.#hasAudio ? audioGapMs : firstAudioMs;
    if (this.#since !== null && wait !== null) {
      const what = this.#hasAudio ? "further audio" : "audio";
      candidates.push({ at: this.#since + wait, meaning: `no ${what} for ${wait} ms while it was owed` });
    }
    return candidates.sort((a, b) => a.at - b.at)[0] ?? null;
  }
}
