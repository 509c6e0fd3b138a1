// The client on a socket whose far side misbehaves in every known way (and behaves, too).

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  Client,
  ConnectFailed,
  ConnectRefused,
  DeadlineExceeded,
  MisuseError,
  ProtocolError,
  ServerError,
  StreamBroken,
  wavFile,
} from "../kingfisher.js";
import { encode } from "../vendor/msgpack.js";
import { withServer } from "./fake-live-server.js";

const CHUNK = new Uint8Array(1920).fill(1);
const CHUNK_MS = 40;

/** Two chunks and a finish for the first stream. */
async function oneReply(peer) {
  await peer.until("stop");
  peer.audio(CHUNK);
  peer.audio(CHUNK);
  peer.send("finish", { reason: "stop" });
}

/** A chunk and a finish for each stream, its number in the samples. */
async function replies(peer) {
  for (let number = 1; ; number++) {
    await peer.until("stop");
    peer.audio(new Uint8Array(1920).fill(number), number);
    peer.send("finish", { reason: "stop" });
  }
}

async function collect(events) {
  const found = [];
  for await (const event of events) found.push(event);
  return found;
}

const types = (events) => events.map(({ type }) => type);
const sound = (events) => events.filter(({ type }) => type === "audio");

/** Runs `use(client, server)` on a fake server. */
function withClient(behave, use, { options = {}, ...serverOptions } = {}) {
  return withServer(
    behave,
    async (server) => {
      const client = new Client(server.url, options);
      await use(client, server);
      client.close();
    },
    serverOptions,
  );
}

/** A promise and its resolve. */
function signal() {
  let resolve;
  const promise = new Promise((r) => {
    resolve = r;
  });
  return { promise, resolve };
}

// ---- a stream's life -------------------------------------------------------------------------------------

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

// ---- barge-in --------------------------------------------------------------------------------------------

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

// ---- broken streams never look finished ------------------------------------------------------------------

for (const [end, code] of Object.entries({ close: 1000, drain: 1012, reset: 1006 })) {
  test(`a socket that ends midway throws: ${end}`, () => {
    const heard = signal();
    const behave = async (peer) => {
      await peer.until("stop");
      peer.audio(CHUNK);
      await heard.promise;
      if (end === "reset") peer.socket.terminate();
      else peer.socket.close(code, end);
    };
    return withClient(behave, async (client) => {
      const listen = async () => {
        for await (const _ of client.speak("Hello.")) heard.resolve();
      };
      await assert.rejects(listen, (e) => e instanceof StreamBroken && e.closeCode === code && e.audioMs === CHUNK_MS);
      assert.equal(client.connects, 1);
    });
  });
}

test("a finish with an error throws its code and the socket stays", () => {
  const behave = async (peer) => {
    await peer.until("stop");
    peer.audio(CHUNK);
    peer.send("finish", { reason: "error", code: "overloaded", message: "no slot" });
    await replies(peer);
  };
  return withClient(behave, async (client) => {
    const isIt = (e) => e instanceof ServerError && e.code === "overloaded" && e.audioMs === CHUNK_MS;
    await assert.rejects(collect(client.speak("Hello.")), isIt);
    assert.equal((await collect(client.speak("Hello."))).at(-1).type, "finish");
    assert.equal(client.connects, 1);
  });
});

for (const event of ["error", "of a later server"]) {
  test(`any event that says no is thrown: ${event}`, () => {
    const behave = async (peer) => {
      await peer.until("text");
      peer.send(event, { error: "no", code: "too_big" });
    };
    return withClient(behave, (client) =>
      assert.rejects(collect(client.speak("Hello.")), (e) => e instanceof ServerError && e.code === "too_big"));
  });
}

test("what is not the protocol is thrown", () => {
  const behave = async (peer) => {
    await peer.until("start");
    peer.socket.send('{"event": "audio"}');
  };
  return withClient(behave, (client) => assert.rejects(collect(client.speak("Hello.")), ProtocolError));
});

test("a failing source of text ends the stream with its own error", () =>
  withClient(oneReply, async (client) => {
    async function* words() {
      yield "Hello ";
      throw new RangeError("the model went away");
    }
    await assert.rejects(collect(client.speak(words())), RangeError);
  }));

// ---- the handshake ---------------------------------------------------------------------------------------

for (const refusal of [
  { status: 401, code: "bad_key", isRetryable: false },
  { status: 404, code: "unknown_voice", isRetryable: false },
  { status: 429, code: "too_many_sessions", retryAfterS: 2, isRetryable: true },
  { status: 503, code: "draining", retryAfterS: 5, isRetryable: true },
]) {
  test(`a refused handshake says why: ${refusal.code}`, () =>
    withClient(
      oneReply,
      async (client) => {
        await assert.rejects(client.stream(), (error) => {
          assert.ok(error instanceof ConnectRefused);
          assert.deepEqual([error.status, error.code], [refusal.status, refusal.code]);
          assert.equal(error.retryAfterS, refusal.retryAfterS ?? null);
          assert.equal(error.isRetryable, refusal.isRetryable);
          return !error.message.includes("secret-key");
        });
        await assert.rejects(client.stream(), ConnectRefused); // and no half-open stream is left
      },
      { refusal, options: { apiKey: "secret-key" } },
    ));
}

test("no server, no address, and the wrong kind are connect errors without the key in them", async () => {
  for (const url of ["ws://127.0.0.1:1/?api_key=secret-key", "not an address", "http://127.0.0.1/"]) {
    await assert.rejects(new Client(url, { voice: "rowan" }).connect(), (error) => {
      assert.ok(error instanceof ConnectFailed);
      return !error.message.includes("secret-key");
    });
  }
});

test("a server that does not answer the handshake is given up in time", async () => {
  const { createServer } = await import("node:net");
  const silent = createServer(() => {}).listen(0, "127.0.0.1");
  await new Promise((resolve) => silent.once("listening", resolve));
  const client = new Client(`ws://127.0.0.1:${silent.address().port}/`, { timeouts: { connectMs: 50 } });
  await assert.rejects(client.connect(), (e) => e instanceof ConnectFailed && /no answer within 50 ms/.test(e.message));
  silent.close();
});

test("key and voice travel with the handshake", () =>
  withServer(oneReply, async ({ url, requests }) => {
    const client = new Client(`${url}?voice=old&x=1`, { apiKey: "k", voice: "a b" });
    await client.connect();
    client.close();
    assert.equal(requests[0].headers.authorization, "Bearer k");
    assert.equal(requests[0].url, "/v1/tts/live?voice=a+b&x=1");
  }));

// ---- a quiet spell ---------------------------------------------------------------------------------------

test("an idle socket that was closed is replaced and nothing is lost", () => {
  const behave = async (peer) => {
    await oneReply(peer);
    if (peer.connection === 1) peer.socket.close(1000, "idle");
  };
  return withClient(behave, async (client, { peers }) => {
    await collect(client.speak("First."));
    await peers[0].gone;
    assert.equal(sound(await collect(client.speak("Second."))).length, 2);
    assert.equal(client.connects, 2);
    assert.deepEqual(peers.map(({ text }) => text), ["First.", "Second."]);
  });
});

test("a socket that dies between text and flush is replaced and all is said again", () => {
  const behave = async (peer) => {
    await peer.until("text");
    if (peer.connection === 1) {
      peer.socket.close(1000, "idle");
      return;
    }
    await peer.until("flush");
    peer.audio(CHUNK);
    peer.send("flushed", { seq: 1, audio_ms: CHUNK_MS });
    await peer.until("stop");
    peer.send("finish", { reason: "stop" });
  };
  return withClient(behave, async (client, { peers }) => {
    const stream = await client.stream();
    stream.sendText("Half a sentence ");
    await peers[0].gone;
    stream.sendText("and the rest.");
    stream.flush();
    const events = [];
    for await (const event of stream) {
      events.push(event.type);
      if (event.type === "flushed") stream.stop();
    }
    assert.deepEqual(events, ["audio", "flushed", "finish"]);
    assert.equal(peers[1].text, "Half a sentence and the rest.");
    assert.equal(client.connects, 2);
  });
});

test("a server that always hangs up is given up", () => {
  const behave = async (peer) => {
    await peer.until("start");
    peer.socket.close(1000);
  };
  return withClient(behave, async (client) => {
    await assert.rejects(collect(client.speak("Hello.")), StreamBroken);
    assert.equal(client.connects, 2);
  });
});

// ---- deadlines and bounds --------------------------------------------------------------------------------

for (const [events, meaning] of [[0, /no audio for/], [3, /no further audio for/]]) {
  test(`a server that goes quiet after ${events} events is a time-out, and the next stream works`, () => {
    const behave = async (peer) => {
      if (peer.connection === 2) return oneReply(peer);
      await peer.until("stop");
      for (let i = 0; i < events; i++) peer.audio(CHUNK);
    };
    const options = { timeouts: { firstAudioMs: 150, audioGapMs: 150 } };
    return withClient(
      behave,
      async (client) => {
        const isIt = (e) => e instanceof DeadlineExceeded && meaning.test(e.message) && e.audioMs === events * CHUNK_MS;
        await assert.rejects(collect(client.speak("Hello.")), isIt);
        assert.equal(sound(await collect(client.speak("Hello."))).length, 2);
      },
      { options },
    );
  });
}

test("messages without sound do not put the deadline off", () => {
  const behave = async (peer) => {
    await peer.until("stop");
    const chatter = setInterval(() => peer.send("log", { message: "still here" }), 10);
    await peer.gone;
    clearInterval(chatter);
  };
  const options = { timeouts: { firstAudioMs: 150 } };
  return withClient(behave, (client) => assert.rejects(collect(client.speak("Hello.")), DeadlineExceeded), { options });
});

test("an agent that owes nothing is not timed out", () => {
  const behave = async (peer) => {
    await peer.until("text");
    setTimeout(() => peer.audio(CHUNK), 300);
    await peer.until("stop");
    peer.send("finish", { reason: "stop" });
  };
  const options = { timeouts: { firstAudioMs: 100, audioGapMs: 100 } };
  return withClient(
    behave,
    async (client) => {
      const stream = await client.stream();
      stream.sendText("Hello.");
      const events = [];
      for await (const { type } of stream) {
        events.push(type);
        if (type === "audio") stream.stop();
      }
      assert.deepEqual(events, ["audio", "finish"]);
    },
    { options },
  );
});

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

// ---- files -----------------------------------------------------------------------------------------------

test("a WAV file states its true sizes", () => {
  const file = wavFile([CHUNK, CHUNK.subarray(0, 100)], 24_000);
  const view = new DataView(file.buffer);
  assert.equal(file.length, 44 + 2020);
  assert.equal(view.getUint32(4, true), file.length - 8);
  assert.equal(view.getUint32(40, true), 2020);
  assert.equal(view.getUint32(24, true), 24_000);
  assert.deepEqual(file.subarray(44, 44 + 1920), CHUNK);
});
