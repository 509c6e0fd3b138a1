// Client and player together. The player here is a sound device that takes notes.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Client, MisuseError, ServerError, Speaker } from "../kingfisher.js";
import { withServer } from "./fake-live-server.js";

const CHUNK = new Uint8Array(1920);

class NotingPlayer {
  format = { format: "pcm", sample_rate: 48_000 };
  notes = [];

  async push({ utterance }) {
    this.notes.push(utterance);
  }

  async end() {
    this.notes.push("end");
  }

  interrupt() {
    this.notes.push("interrupt");
    return 120.4;
  }
}

function withSpeaker(behave, use) {
  return withServer(behave, async (server) => {
    const client = new Client(server.url);
    const player = new NotingPlayer();
    await use(new Speaker(client, player), player, server);
    client.close();
  });
}

/** One chunk a text; then until `stop`: the finish, or what a cancel asks for. */
async function talk(peer) {
  for (let utterance = 1; ; utterance++) {
    await peer.until("text");
    peer.audio(CHUNK, utterance);
    await peer.until("stop");
    if (peer.received.at(-2).event === "cancel") peer.send("cancelled", { utterance, spoken_text: "One" });
    peer.send("finish", { reason: "stop" });
  }
}

/** A source of text that never ends by itself. */
async function* endless() {
  yield "One ";
  await new Promise(() => {});
}

const next = (speaker, type) => new Promise((resolve) => speaker.addEventListener(type, (e) => resolve(e.detail), { once: true }));

test("what is said goes to the player, in the player's format, with its end", () =>
  withSpeaker(talk, async (speaker, player, { peers }) => {
    const finish = await speaker.say("Hello.", { seed: 1 });
    assert.equal(finish.type, "finish");
    assert.deepEqual(player.notes, [1, "end"]);
    assert.deepEqual(peers[0].received[0].request, { format: "pcm", sample_rate: 48_000, seed: 1 });
    assert.equal(speaker.isSpeaking, false);
  }));

test("an interruption silences the player at once and tells the server what was heard", () =>
  withSpeaker(talk, async (speaker, player, { peers }) => {
    const said = speaker.say(endless());
    await next(speaker, "audio");
    const cancelled = next(speaker, "cancelled");
    assert.equal(speaker.interrupt(), 120.4);
    assert.equal(player.notes.at(-1), "interrupt");
    assert.equal(speaker.isSpeaking, false);
    assert.equal(await said, null);
    assert.equal((await cancelled).spokenText, "One");
    const sent = peers[0].received.map(({ event }) => event);
    assert.deepEqual(sent, ["start", "text", "cancel", "stop"]);
    assert.equal(peers[0].received[2].played_ms, 120);
    assert.ok(!player.notes.includes("end"), "the end of an interrupted turn is not the player's business");
  }));

test("the next words may be said right after an interruption, on the same socket", () =>
  withSpeaker(talk, async (speaker, player, { peers }) => {
    const first = speaker.say(endless());
    await next(speaker, "audio");
    speaker.interrupt();
    assert.equal((await speaker.say("Two.")).type, "finish");
    assert.equal(await first, null);
    assert.deepEqual(player.notes.slice(-3), ["interrupt", 2, "end"]);
    assert.equal(peers.length, 1);
  }));

test("an interruption before the socket is there leaves nothing behind", () =>
  withSpeaker(talk, async (speaker) => {
    const said = speaker.say("Never mind.");
    speaker.interrupt();
    assert.equal(await said, null);
    assert.equal((await speaker.say("Hello.")).type, "finish");
  }));

test("saying two things at once is a misuse", () =>
  withSpeaker(talk, async (speaker) => {
    const first = speaker.say("One.");
    await assert.rejects(speaker.say("Two."), MisuseError);
    assert.equal((await first).type, "finish");
  }));

test("what ends the stream rejects, and the speaker can go on", () => {
  const behave = async (peer) => {
    await peer.until("text");
    peer.send("finish", { reason: "error", code: "overloaded", message: "no slot" });
    peer.received.length = 0;
    await talk(peer);
  };
  return withSpeaker(behave, async (speaker) => {
    await assert.rejects(speaker.say(endless()), (error) => error instanceof ServerError && error.code === "overloaded");
    assert.equal((await speaker.say("Hello.")).type, "finish");
  });
});
