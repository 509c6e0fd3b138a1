// The declarations name exactly what the module exports.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import * as kingfisher from "../kingfisher.js";

test("kingfisher.d.ts declares every export, and nothing else", async () => {
  const text = await readFile(`${import.meta.dirname}/../kingfisher.d.ts`, "utf8");
  const declared = [...text.matchAll(/^export (?:class|function|const) (\w+)/gm)].map(([, name]) => name);
  assert.deepEqual(declared.sort(), Object.keys(kingfisher).sort());
});
