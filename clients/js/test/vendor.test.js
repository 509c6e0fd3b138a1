// What is committed as vendor/msgpack.js is what the locked version of the package gives.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { bundle } from "../vendor/build.js";

test("the vendored bundle is fresh (else: npm run vendor)", async () => {
  assert.equal(await readFile(`${import.meta.dirname}/../vendor/msgpack.js`, "utf8"), await bundle());
});
