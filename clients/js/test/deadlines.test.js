// Laws of the client's deadlines.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Deadlines } from "../src/deadlines.js";

const LIMITS = { firstAudioMs: 5000, audioGapMs: 2000, totalMs: null };

test("nothing is waited for while nothing is owed", () => {
  const deadlines = new Deadlines(LIMITS, 0);
  deadlines.heard(1000);
  assert.equal(deadlines.next(), null);
});

test("first audio and the gaps after it have limits of their own", () => {
  const deadlines = new Deadlines(LIMITS, 0);
  deadlines.owe(10_000);
  assert.deepEqual(deadlines.next(), { at: 15_000, meaning: "no audio for 5000 ms while it was owed" });
  deadlines.heard(12_000);
  assert.deepEqual(deadlines.next(), { at: 14_000, meaning: "no further audio for 2000 ms while it was owed" });
});

test("asking again does not put the deadline off", () => {
  const deadlines = new Deadlines(LIMITS, 0);
  deadlines.owe(1000);
  deadlines.owe(4000);
  assert.equal(deadlines.next().at, 6000);
});

test("a second turn waits for its own first audio", () => {
  const deadlines = new Deadlines(LIMITS, 0);
  deadlines.owe(1000);
  deadlines.heard(2000);
  deadlines.settle();
  deadlines.owe(100_000);
  assert.equal(deadlines.next().at, 105_000);
});

test("the total runs from the start and the nearest deadline counts", () => {
  const deadlines = new Deadlines({ ...LIMITS, totalMs: 6000 }, 10_000);
  assert.equal(deadlines.next().at, 16_000);
  deadlines.owe(10_500);
  assert.equal(deadlines.next().at, 15_500);
  deadlines.heard(15_000);
  assert.equal(deadlines.next().at, 16_000);
});

test("null switches a limit off", () => {
  const deadlines = new Deadlines({ firstAudioMs: null, audioGapMs: null, totalMs: null }, 0);
  deadlines.owe(1000);
  deadlines.heard(2000);
  assert.equal(deadlines.next(), null);
});
