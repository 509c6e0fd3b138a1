// Frames <-> events, on the vectors that the server is tested with.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { ProtocolError, ServerError, StreamError } from "../src/errors.js";
import { pack, parse } from "../src/wire.js";
import { decode, encode } from "../vendor/msgpack.js";

const VECTORS = JSON.parse(await readFile(`${import.meta.dirname}/../../../tests/golden/wire/vectors.json`, "utf8"));

const bytes = (hex) => Uint8Array.from(Buffer.from(hex, "hex"));
const frame = (data) => Uint8Array.from(data).buffer;
const message = (fields) => frame(encode(fields));

function plain(value) {
  if (Array.isArray(value)) return value.map(plain);
  if (value === null || typeof value !== "object") return value;
  if (Object.keys(value).join() === "$hex") return bytes(value.$hex);
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, plain(inner)]));
}

for (const vector of VECTORS.from_client) {
  test(`a client's message as the server reads it: ${vector.name}`, () => {
    const { event, ...fields } = plain(vector.message);
    assert.deepEqual(decode(pack(event, fields)), plain(vector.message));
    assert.deepEqual(decode(bytes(vector.hex)), plain(vector.message));
  });
}

for (const vector of VECTORS.from_server) {
  test(`a server's message is understood: ${vector.name}`, () => {
    const sent = plain(vector.message);
    const read = () => parse(frame(bytes(vector.hex)));
    if (sent.event === "error" || sent.reason === "error") {
      assert.throws(read, (error) => error instanceof ServerError && error.code === sent.code);
      return;
    }
    const event = read();
    if (["pong", "log"].includes(sent.event)) {
      assert.equal(event, null);
      return;
    }
    assert.equal(event.type, sent.event);
    const names = { audio: "data", time: "timeMs", ttfa_ms: "ttfaMs", event: null, reason: null, message: "message" };
    for (const [name, value] of Object.entries(sent)) {
      const ours = name in names ? names[name] : name.replace(/_(\w)/g, (_, letter) => letter.toUpperCase());
      if (ours !== null && ours in event) assert.deepEqual(event[ours], value, name);
    }
  });
}

test("audio without sound and unknown events are skipped", () => {
  const silent = [{}, { audio: null }, { audio: new Uint8Array(0) }, { packets: [] }];
  for (const fields of silent) assert.equal(parse(message({ event: "audio", ...fields })), null);
  assert.equal(parse(message({ event: "of a later server", field: 1 })), null);
  assert.equal(parse(message({ event: "constructor" })), null);
});

test("every kind of no is an error with its code", () => {
  const cases = [
    [{ event: "finish", reason: "error", code: "overloaded", message: "m" }, "overloaded", true],
    [{ event: "finish", reason: "error" }, "error", true],
    [{ event: "error", error: "m", code: "malformed" }, "malformed", false],
    [{ event: "of a later server", error: "quota used up" }, "error", false],
  ];
  for (const [fields, code, isFinish] of cases) {
    assert.throws(() => parse(message(fields)), (e) => e instanceof ServerError && e.code === code && e.isFinish === isFinish);
  }
});

test("what is no event is a protocol error", () => {
  for (const data of ["text", frame([0xc1]), frame([]), message([1]), message("event"), message(null)]) {
    assert.throws(() => parse(data), ProtocolError);
  }
});

test("a field of a wrong type is a stream error, whatever it is", () => {
  const values = [true, -1, 0.5, "text", new Uint8Array(2), [], [1], { a: 1 }, [new Uint8Array(1)]];
  for (const event of ["ready", "audio", "flushed", "cancelled", "warning", "finish"]) {
    for (const name of ["voice", "limits", "audio", "packets", "utterance", "pts_ms", "audio_ms", "usage", "code"]) {
      for (const value of values) {
        try {
          parse(message({ event, reason: "stop", [name]: value }));
        } catch (error) {
          assert.ok(error instanceof StreamError, `${event}.${name}: ${error}`);
        }
      }
    }
  }
});

test("undefined fields are left out and null goes through", () => {
  assert.deepEqual(decode(pack("cancel", { played_ms: undefined })), { event: "cancel" });
  assert.deepEqual(decode(pack("start", { request: { seed: null } })), { event: "start", request: { seed: null } });
});
