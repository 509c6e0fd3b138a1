// The client's streams: how they run, how they are interrupted, and how much they hold.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Client, MisuseError, StreamBroken, wavFile } from "../kingfisher.js";
import { encode } from "../vendor/msgpack.js";
import { CHUNK, CHUNK_MS, collect, oneReply, replies, signal, sound, withClient, withServer } from "./fake-live-server.js";

const types = (events) => events.map(({ type }) => type);

// ---- a stream's life -----------------------------------------------------------------------------------

test("a text becomes sound and the request goes through", () =>
  withClient(oneReply, async (client, { peers }) => {
    const events = await collect(client.speak("Hello.", { format: "pcm", seed: 7 }));
    assert.deepEqual(types(events), ["audio", "audio", "finish"]);
    assert.deepEqual(events[0].data, CHUNK);
    const [start, text, stop] = peers[0].received;
    assert.deepEqual(start, { event: "start", request: { format: "pcm", seed: 7 } });
    assert.deepEqual([text.text, stop.event], ["Hello.", "stop"]);
  }));

test("pieces are sent as they come", () => {
  const heard = signal();
  const behave = async (peer) => {
    await peer.until("text");
    peer.audio(CHUNK);
    await peer.until("stop");
    peer.send("finish", { reason: "stop" });
  };
  return withClient(behave, async (client, { peers }) => {
    async function* words() {
      yield "One. ";
      await heard.promise; // would never come if the client collected first
      yield "Two.";
    }
    for await (const { type } of client.speak(words())) if (type === "audio") heard.resolve();
    assert.equal(peers[0].text, "One. Two.");
  });
});

test("streams follow one another on one socket, each with its settings", () =>
  withClient(replies, async (client, { peers }) => {
    for (const [i, request] of [{ voice: "rowan" }, { voice: "hazel", sample_rate: 8000 }].entries()) {
      const [audio] = await collect(client.speak("Hello.", request));
      assert.equal(audio.data[0], i + 1);
    }
    assert.equal(client.connects, 1);
    const starts = peers[0].received.filter(({ event }) => event === "start");
    assert.deepEqual(starts.map(({ request }) => request), [{ voice: "rowan" }, { voice: "hazel", sample_rate: 8000 }]);
  }));

test("ready is told by the client and is part of a stream that is open", () => {
  const behave = async (peer) => {
    peer.send("ready", { voice: "rowan", sample_rate: 24000, limits: { max_message_bytes: 5000 } });
    await replies(peer);
  };
  return withClient(behave, async (client) => {
    const ready = new Promise((resolve) => client.addEventListener("ready", resolve, { once: true }));
    await client.connect();
    const { detail } = await ready;
    assert.deepEqual([detail.voice, detail.sampleRate], ["rowan", 24000]);
    await assert.rejects(collect(client.speak("x".repeat(6000))), (e) => e instanceof MisuseError && /at most 5000/.test(e.message));
    assert.deepEqual(types(await collect(client.speak("Hello."))).at(-1), "finish");
  });
});

test("two streams at once are refused before anything is sent", () =>
  withClient(oneReply, async (client, { peers }) => {
    const stream = await client.stream();
    await assert.rejects(client.stream(), MisuseError);
    stream.close();
    assert.equal(peers[0].received.length <= 1, true);
  }));

test("text after stop is a misuse and harms nothing", () =>
  withClient(oneReply, async (client) => {
    const stream = await client.stream();
    stream.sendText("Hello.");
    stream.stop();
    assert.throws(() => stream.sendText("More."), MisuseError);
    assert.equal((await collect(stream)).at(-1).type, "finish");
  }));

// ---- barge-in ------------------------------------------------------------------------------------------

test("after cancel nothing of the old utterance comes out", () => {
  const behave = async (peer) => {
    await peer.until("flush");
    for (let i = 0; i < 5; i++) peer.audio(CHUNK, 1);
    assert.equal((await peer.until("cancel")).played_ms, 41);
    peer.audio(CHUNK, 1);
    peer.send("flushed", { seq: 1, audio_ms: 240 });
    peer.send("cancelled", { utterance: 1, spoken_text: "One", remaining_text: "two.", audio_ms: 240 });
    peer.audio(CHUNK, 1);
    await peer.until("stop");
    peer.audio(CHUNK, 2);
    peer.send("finish", { reason: "stop" });
  };
  return withClient(behave, async (client) => {
    const stream = await client.stream();
    stream.sendText("One two. ");
    stream.flush();
    const events = [];
    for await (const event of stream) {
      events.push(event);
      if (events.length > 1) continue;
      while (stream.audioMs < 5 * CHUNK_MS) await new Promise(setImmediate); // all of it lies in the client now
      stream.cancel(40.6);
      stream.sendText("Three.");
      stream.stop();
    }
    assert.deepEqual(types(events), ["audio", "cancelled", "audio", "finish"]);
    assert.deepEqual(sound(events).map(({ utterance }) => utterance), [1, 2]);
  });
});

test("a cancel that crossed with finish does not disturb the next stream", () => {
  const behave = async (peer) => {
    await peer.until("stop");
    peer.audio(CHUNK, 1);
    await peer.until("cancel");
    peer.send("finish", { reason: "stop" });
    peer.send("cancelled", { utterance: 1 });
    await peer.until("stop");
    peer.audio(CHUNK, 2);
    await peer.until("cancel");
    peer.audio(CHUNK, 2);
    peer.send("cancelled", { utterance: 2, spoken_text: "Again." });
    peer.send("finish", { reason: "stop" });
  };
  return withClient(behave, async (client) => {
    const runs = [];
    for (let i = 0; i < 2; i++) {
      const events = [];
      const stream = await client.stream();
      stream.sendText("Hello.");
      stream.stop();
      for await (const event of stream) {
        events.push(event);
        if (event.type === "audio") stream.cancel();
      }
      runs.push(types(events));
    }
    assert.deepEqual(runs, [["audio", "finish"], ["audio", "cancelled", "finish"]]);
    assert.equal(client.connects, 1);
  });
});

test("leaving a stream early closes the socket and the next one is clean", () => {
  const behave = async (peer) => {
    await peer.until("text");
    peer.audio(CHUNK);
    if (peer.connection === 2) peer.send("finish", { reason: "stop" });
  };
  return withClient(behave, async (client, { peers }) => {
    for await (const { type } of client.speak("Never mind.")) if (type === "audio") break;
    await peers[0].gone;
    assert.equal((await collect(client.speak("Hello."))).at(-1).type, "finish");
    assert.equal(client.connects, 2);
  });
});

// ---- bounds --------------------------------------------------------------------------------------------

test("sound that nobody takes is bounded", () => {
  const piece = new Uint8Array(1 << 20);
  let sent = 0;
  const behave = async (peer) => {
    await peer.until("start");
    while (peer.socket.readyState === 1 && sent < 256) {
      peer.audio(piece);
      sent += 1;
      await new Promise(setImmediate);
    }
  };
  return withClient(behave, async (client, { peers }) => {
    const stream = await client.stream();
    await peers[0].gone;
    await assert.rejects(collect(stream), (e) => e instanceof StreamBroken && /nobody took them/.test(e.message));
    assert.ok(sent < 128, `${sent} MiB were taken in`);
  });
});

test("closing the client ends a stream and a connection under way", () =>
  withServer(replies, async ({ url }) => {
    const client = new Client(url);
    const opening = client.stream();
    client.close();
    await assert.rejects(opening);
    const stream = await client.stream();
    client.close();
    await assert.rejects(collect(stream), MisuseError);
  }));

test("large messages pass in both directions", () => {
  const clip = new Uint8Array(8 << 20).fill(3);
  const behave = async (peer) => {
    const start = await peer.until("start");
    await peer.until("stop");
    peer.socket.send(encode({ event: "audio", audio: start.request.references[0].audio, duration_ms: 1 }));
    peer.send("finish", { reason: "stop" });
  };
  return withClient(behave, async (client) => {
    const [audio] = await collect(client.speak("Hi.", { references: [{ audio: clip, text: "Hi." }] }));
    assert.equal(Buffer.compare(audio.data, clip), 0);
  });
});

// ---- files ---------------------------------------------------------------------------------------------

test("a WAV file states its true sizes", () => {
  const file = wavFile([CHUNK, CHUNK.subarray(0, 100)], 24_000);
  const view = new DataView(file.buffer);
  assert.equal(file.length, 44 + 2020);
  assert.equal(view.getUint32(4, true), file.length - 8);
  assert.equal(view.getUint32(40, true), 2020);
  assert.equal(view.getUint32(24, true), 24_000);
  assert.deepEqual(file.subarray(44, 44 + 1920), CHUNK);
});
