// Sound between network and loudspeaker. Pure: runs in the audio worklet and in tests.
//
// Chunks play back to back on one running sample clock. Playing begins when `target` samples lie ready, or when the
// sender says that no more will come. If sound runs out before that, the buffer fills to a larger target before it
// goes on: one gap, not many. The target shrinks slowly again while nothing runs out.

const START_MS = 80;
const GROW_MS = 40;
const MAX_MS = 400;
const SHRINK_MS = 10;
const SHRINK_AFTER_MS = 20_000;
/** A cut is faded over this time: an edge in the wave would click. */
const FADE_MS = 5;

export class JitterBuffer {
  #rate;
  /** Queue of {samples, utterance}; `#at` is the place in the first. */
  #chunks = [];
  #at = 0;
  #isPlaying = false;
  #isEnded = false;
  #target;
  #smoothSamples = 0;

  queuedSamples = 0;
  /** Number of the utterance that sounds, or sounded last, and how much of it was played. */
  utterance = 0;
  playedSamples = 0;
  underruns = 0;

  constructor(rate) {
    this.#rate = rate;
    this.#target = this.#samples(START_MS);
  }

  #samples(ms) {
    return Math.round((ms * this.#rate) / 1000);
  }

  get targetMs() {
    return (this.#target * 1000) / this.#rate;
  }

  get isPlaying() {
    return this.#isPlaying;
  }

  /** `samples`: Float32Array, kept. */
  push(samples, utterance) {
    this.#isEnded = false;
    if (samples.length === 0) return;
    this.#chunks.push({ samples, utterance });
    this.queuedSamples += samples.length;
  }

  /** No more sound for now: what is here plays to its end. */
  end() {
    this.#isEnded = true;
  }

  /** Barge-in: silence after a fade of a few milliseconds. */
  clear() {
    const fade = this.#isPlaying ? new Float32Array(Math.min(this.#samples(FADE_MS), this.queuedSamples)) : null;
    if (fade !== null) this.#take(fade);
    this.#chunks = [];
    this.#at = 0;
    this.queuedSamples = 0;
    if (fade === null || fade.length === 0) {
      this.#isPlaying = false;
      return;
    }
    for (let i = 0; i < fade.length; i++) fade[i] *= 1 - (i + 1) / fade.length;
    this.playedSamples -= fade.length; // it is played now
    this.push(fade, this.utterance);
    this.#isEnded = true;
  }

  /** The next `out.length` samples, silence where there are none. */
  pull(out) {
    out.fill(0);
    if (!this.#isPlaying) {
      const isReady = this.queuedSamples >= this.#target || (this.#isEnded && this.queuedSamples > 0);
      if (!isReady) return;
      this.#isPlaying = true;
    }
    const taken = this.#take(out);
    if (taken === out.length) this.#shrink(taken);
    else this.#runOut();
  }

  /** Move queued samples to the beginning of `out`; returns how many. */
  #take(out) {
    let done = 0;
    while (done < out.length && this.#chunks.length > 0) {
      const { samples, utterance } = this.#chunks[0];
      if (utterance !== this.utterance) {
        this.utterance = utterance;
        this.playedSamples = 0;
      }
      const count = Math.min(out.length - done, samples.length - this.#at);
      out.set(samples.subarray(this.#at, this.#at + count), done);
      done += count;
      this.#at += count;
      this.playedSamples += count;
      if (this.#at === samples.length) {
        this.#chunks.shift();
        this.#at = 0;
      }
    }
    this.queuedSamples -= done;
    return done;
  }

  #runOut() {
    this.#isPlaying = false;
    if (this.#isEnded) return;
    this.underruns += 1;
    this.#target = Math.min(this.#target + this.#samples(GROW_MS), this.#samples(MAX_MS));
    this.#smoothSamples = 0;
  }

  #shrink(count) {
    this.#smoothSamples += count;
    if (this.#smoothSamples < this.#samples(SHRINK_AFTER_MS)) return;
    this.#smoothSamples = 0;
    this.#target = Math.max(this.#target - this.#samples(SHRINK_MS), this.#samples(START_MS));
  }
}
