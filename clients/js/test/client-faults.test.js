// The client on a socket whose far side misbehaves in every known way.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Client, ConnectFailed, ConnectRefused, DeadlineExceeded, ProtocolError, ServerError, StreamBroken } from "../kingfisher.js";
import { CHUNK, CHUNK_MS, collect, oneReply, replies, signal, sound, withClient, withServer } from "./fake-live-server.js";

// ---- broken streams never look finished ----------------------------------------------------------------

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

// ---- the handshake -------------------------------------------------------------------------------------

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

// ---- a quiet spell -------------------------------------------------------------------------------------

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

// ---- deadlines -----------------------------------------------------------------------------------------

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
