// Bundle @msgpack/msgpack into one file, so that browsers (and the demo page, offline) need no bundler.
// `npm run vendor` writes it; the tests compare it with a fresh bundle of the locked version.

import { readFile, writeFile } from "node:fs/promises";
import { pathToFileURL } from "node:url";
import { build } from "esbuild";

const here = import.meta.dirname;

/** The bundle's text, with its licence on top. */
export async function bundle() {
  const folder = `${here}/../node_modules/@msgpack/msgpack`;
  const { version } = JSON.parse(await readFile(`${folder}/package.json`, "utf8"));
  const licence = (await readFile(`${folder}/LICENSE`, "utf8")).trim();
  const result = await build({
    stdin: { contents: 'export { decode, encode } from "@msgpack/msgpack";', resolveDir: here },
    bundle: true,
    format: "esm",
    target: "es2022",
    legalComments: "none",
    banner: { js: `/*\n@msgpack/msgpack ${version} (encode and decode), bundled by vendor/build.js\n\n${licence}\n*/` },
    write: false,
  });
  return result.outputFiles[0].text;
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  await writeFile(`${here}/msgpack.js`, await bundle());
}
