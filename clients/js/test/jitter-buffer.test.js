// Laws of the sound queue. A sine goes in, in pieces, at the times a network might choose; what comes out is the sine.

import assert from "node:assert/strict";
import { test } from "node:test";
import { JitterBuffer } from "../src/jitter-buffer.js";

const RATE = 48_000;
const QUANTUM = 128;
/** Less than the first cushion; more of it may cost one gap at the very beginning, before the server is ahead. */
const JITTER_MS = 75;
const ms = (milliseconds) => Math.round((milliseconds * RATE) / 1000);

/** Never zero for long: a silence in it is easily told from sound. */
function sine(length, hz = 440) {
  return Float32Array.from({ length }, (_, i) => 0.5 * Math.cos((2 * Math.PI * hz * i) / RATE));
}

/** Small, seeded, good enough to shuffle arrivals (mulberry32). */
function randomNumbers(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Cut at random, 20 to 460 ms a piece. */
function pieces(wave, random) {
  const cut = [];
  for (let at = 0; at < wave.length; ) {
    const length = ms(20 + random() * 440);
    cut.push(wave.slice(at, at + length));
    at += length;
  }
  return cut;
}

/** Play `arrivals` ([{at: sample time, samples, utterance}], then the end) on the device's clock. */
function render(buffer, arrivals, length) {
  const out = new Float32Array(length);
  let next = 0;
  for (let now = 0; now + QUANTUM <= length; now += QUANTUM) {
    while (next < arrivals.length && arrivals[next].at <= now) {
      const { samples, utterance = 1 } = arrivals[next++];
      if (samples === null) buffer.end();
      else buffer.push(samples, utterance);
    }
    buffer.pull(out.subarray(now, now + QUANTUM));
  }
  return out;
}

/** The stretches of sound, silences between them removed. */
function stretches(out) {
  const found = [];
  let from = null;
  let zeros = 0;
  out.forEach((value, i) => {
    if (value !== 0) {
      from ??= i;
      zeros = 0;
    } else if (from !== null && ++zeros > 8) {
      found.push(out.subarray(from, i - 8));
      from = null;
    }
  });
  return found;
}

/**
 * Arrivals as a server paces them, 500 ms ahead of the sound, each late by up to `jitterMs`. A network that stands still
 * for `stallMs` from the middle on delivers what it held in one go.
 */
function arrivalsOf(cut, random, { jitterMs, stallMs = 0 }) {
  const length = cut.reduce((sum, samples) => sum + samples.length, 0);
  let due = -ms(500);
  let last = 0;
  const arrivals = cut.map((samples) => {
    let at = Math.max(0, due) + ms(random() * jitterMs);
    if (at >= length / 2 && at < length / 2 + ms(stallMs)) at = length / 2 + ms(stallMs);
    last = Math.max(last, at);
    due += samples.length;
    return { at: last, samples };
  });
  return [...arrivals, { at: last, samples: null }];
}

test("pieces of a wave come out as the wave, whatever the cuts and the jitter", () => {
  for (let seed = 1; seed <= 20; seed++) {
    const random = randomNumbers(seed);
    const wave = sine(ms(5000));
    const buffer = new JitterBuffer(RATE);
    const found = stretches(render(buffer, arrivalsOf(pieces(wave, random), random, { jitterMs: JITTER_MS }), ms(6000)));
    assert.equal(buffer.underruns, 0);
    assert.equal(found.length, 1, `seed ${seed}`);
    assert.deepEqual(found[0], wave.subarray(0, found[0].length));
    assert.ok(wave.length - found[0].length <= 8);
  }
});

test("one stall makes one gap, the rest is whole, and nothing is lost", () => {
  for (let seed = 1; seed <= 20; seed++) {
    const random = randomNumbers(seed);
    const wave = sine(ms(8000));
    const buffer = new JitterBuffer(RATE);
    const arrivals = arrivalsOf(pieces(wave, random), random, { jitterMs: JITTER_MS, stallMs: 2000 });
    const found = stretches(render(buffer, arrivals, ms(12_000)));
    assert.equal(buffer.underruns, 1, `seed ${seed}`);
    assert.equal(found.length, 2, `seed ${seed}`);
    const joined = Float32Array.from([...found[0], ...found[1]]);
    assert.deepEqual(joined, wave.subarray(0, joined.length));
    assert.ok(wave.length - joined.length <= 8);
  }
});

test("playing begins when the cushion is full, not before", () => {
  const buffer = new JitterBuffer(RATE);
  const out = new Float32Array(QUANTUM);
  buffer.push(sine(ms(79)), 1);
  buffer.pull(out);
  assert.ok(!buffer.isPlaying && out.every((value) => value === 0));
  buffer.push(sine(ms(1)), 1);
  buffer.pull(out);
  assert.ok(buffer.isPlaying);
  assert.deepEqual(out, sine(QUANTUM));
});

test("a word shorter than the cushion plays as soon as its end is known, and its end is no underrun", () => {
  const buffer = new JitterBuffer(RATE);
  const word = sine(ms(30));
  const out = render(buffer, [{ at: 0, samples: word }, { at: ms(5), samples: null }], ms(100));
  assert.ok(Math.abs(stretches(out)[0].length - word.length) <= 8);
  assert.equal(buffer.underruns, 0);
  assert.equal(buffer.targetMs, 80);
});

test("the cushion grows with each underrun up to its limit, and shrinks again in quiet times", () => {
  const buffer = new JitterBuffer(RATE);
  const out = new Float32Array(QUANTUM);
  for (let i = 1; i <= 12; i++) {
    buffer.push(sine(ms(buffer.targetMs)), 1);
    while (buffer.queuedSamples > 0) buffer.pull(out);
    buffer.pull(out);
    assert.equal(buffer.underruns, i);
    assert.equal(buffer.targetMs, Math.min(80 + 40 * i, 400));
  }
  buffer.push(sine(ms(700_000)), 1);
  while (buffer.queuedSamples >= QUANTUM) buffer.pull(out);
  assert.equal(buffer.targetMs, 80);
});

test("clear is silence within 5 ms, without a click", () => {
  const buffer = new JitterBuffer(RATE);
  const out = new Float32Array(QUANTUM);
  buffer.push(sine(ms(3000), 100), 1);
  for (let i = 0; i < 40; i++) buffer.pull(out);
  const before = out.at(-1);
  buffer.clear();
  const after = new Float32Array(ms(50));
  for (let now = 0; now + QUANTUM <= after.length; now += QUANTUM) buffer.pull(after.subarray(now, now + QUANTUM));
  assert.ok(after.subarray(ms(5)).every((value) => value === 0));
  const steps = [before, ...after].slice(0, ms(6)).map((value, i, all) => (i ? Math.abs(value - all[i - 1]) : 0));
  const steepest = 0.5 * 2 * Math.PI * (100 / RATE) + 0.5 / ms(5);
  assert.ok(Math.max(...steps) <= steepest * 1.01);
  assert.equal(buffer.queuedSamples, 0);
  assert.equal(buffer.underruns, 0);
});

test("after clear the next utterance plays from its beginning", () => {
  const buffer = new JitterBuffer(RATE);
  const out = new Float32Array(QUANTUM);
  buffer.push(sine(ms(1000)), 1);
  buffer.pull(out);
  buffer.clear();
  const next = sine(ms(200), 300);
  const heard = stretches(render(buffer, [{ at: ms(20), samples: next, utterance: 2 }, { at: ms(30), samples: null }], ms(400)));
  assert.deepEqual(heard.at(-1), next.subarray(0, heard.at(-1).length));
  assert.equal(buffer.utterance, 2);
  assert.equal(buffer.playedSamples, next.length);
});

test("clearing what does not play yet leaves no sound at all", () => {
  const buffer = new JitterBuffer(RATE);
  buffer.push(sine(ms(50)), 1);
  buffer.clear();
  assert.ok(render(buffer, [{ at: 0, samples: null }], ms(100)).every((value) => value === 0));
});

test("the played position counts samples of the utterance that sounds", () => {
  const buffer = new JitterBuffer(RATE);
  const out = new Float32Array(QUANTUM);
  buffer.push(sine(QUANTUM * 40), 1);
  buffer.push(sine(QUANTUM * 40), 2);
  for (let i = 1; i <= 40; i++) {
    buffer.pull(out);
    assert.deepEqual([buffer.utterance, buffer.playedSamples], [1, i * QUANTUM]);
  }
  buffer.pull(out);
  assert.deepEqual([buffer.utterance, buffer.playedSamples], [2, QUANTUM]);
});

test("what was pushed is queued or played, at every moment", () => {
  const random = randomNumbers(7);
  const buffer = new JitterBuffer(RATE);
  const out = new Float32Array(QUANTUM);
  let pushed = 0;
  for (let i = 0; i < 5000; i++) {
    if (random() < 0.2) {
      const length = Math.floor(random() * 2000);
      buffer.push(sine(length), 1);
      pushed += length;
    }
    if (random() < 0.05) buffer.end();
    buffer.pull(out);
    assert.equal(buffer.queuedSamples + buffer.playedSamples, pushed);
  }
});
