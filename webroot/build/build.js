// Builds webroot/static/vendor from node_modules: hashed names, a manifest, the notices of third parties; and, in its
// folder pages, our own scripts as one file for each page.
// `npm ci` comes first; `make assets` does both.
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { compile } from "sass";
import { hashOf, pages } from "./pages.js";

const HERE = dirname(fileURLToPath(import.meta.url));
const ROOT = join(HERE, "..", "..");
const MODULES = join(ROOT, "node_modules");
const OUT = join(HERE, "..", "static", "vendor");
const SCRIPTS = join(HERE, "..", "static", "js");
const BUNDLED = ["bootstrap", "@popperjs/core", "bootstrap-icons", "d3-array", "d3-color", "d3-format", "d3-interpolate", "d3-path", "d3-scale", "d3-shape", "d3-time", "d3-time-format", "internmap", "ansi_up"];

/** @param {string} name @param {string} content @returns {string} the hashed name under which it was written */
function write(name, content) {
  const hash = createHash("sha256").update(content).digest("hex").slice(0, 12);
  const hashed = name.replace(/(\.\w+)$/, `-${hash}$1`);
  writeFileSync(join(OUT, hashed), content);
  return hashed;
}

/** @param {string} entry @param {"iife" | "esm"} format @returns {Promise<string>} */
async function scripts(entry, format) {
  const result = await build({
    entryPoints: [join(HERE, entry)],
    bundle: true,
    minify: true,
    write: false,
    format,
    target: "es2022",
    legalComments: "inline",
  });
  return result.outputFiles[0].text;
}

/** @returns {Promise<string>} */
async function styles() {
  const { css } = compile(join(HERE, "bootstrap.scss"), {
    loadPaths: [MODULES],
    quietDeps: true,
    silenceDeprecations: ["import", "global-builtin", "color-functions", "if-function"],
  });
  const result = await build({ stdin: { contents: css, loader: "css" }, minify: true, write: false });
  return result.outputFiles[0].text;
}

/** @returns {string} one file with a <symbol> for each icon that icons.json names */
function icons() {
  const names = JSON.parse(readFileSync(join(HERE, "icons.json"), "utf8"));
  const symbols = names.map((name) => {
    const svg = readFileSync(join(MODULES, "bootstrap-icons", "icons", `${name}.svg`), "utf8");
    const inner = svg.replace(/^[^]*?<svg[^>]*>/, "").replace(/<\/svg>\s*$/, "").trim();
    return `<symbol id="${name}" viewBox="0 0 16 16">${inner}</symbol>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg">${symbols.join("")}</svg>\n`;
}

/** @returns {string} */
function notices() {
  return BUNDLED.map((name) => {
    const { version, license, homepage } = JSON.parse(readFileSync(join(MODULES, name, "package.json"), "utf8"));
    return `${name} ${version} (${license})\n${homepage ?? ""}\n\n${licenseText(name)}`;
  }).join(`\n${"-".repeat(78)}\n\n`);
}

/** @param {string} name @returns {string} */
function licenseText(name) {
  for (const file of ["LICENSE", "LICENSE.txt", "LICENSE.md"]) {
    try {
      return readFileSync(join(MODULES, name, file), "utf8");
    } catch (error) {
      if (error.code !== "ENOENT") throw error;
    }
  }
  throw new Error(`${name} has no licence text`);
}

const content = {
  "vendor.js": await scripts("vendor.js", "iife"), "charts.js": await scripts("charts.js", "esm"), "ansi.js": await scripts("ansi.js", "esm"), "bootstrap.css": await styles(), "icons.svg": icons(),
};
for (const [name, text] of Object.entries(content)) {
  if (name.endsWith(".css") && text.includes("data:")) throw new Error(`${name} has a data: URL`);
}
const ours = { ...(await pages(SCRIPTS)), "built-from": hashOf(SCRIPTS) };
rmSync(OUT, { recursive: true, force: true });
mkdirSync(join(OUT, "pages"), { recursive: true });
for (const [name, text] of Object.entries(ours)) writeFileSync(join(OUT, "pages", name), text);
const manifest = Object.fromEntries(Object.entries(content).map(([name, text]) => [name, write(name, text)]));
writeFileSync(join(OUT, "THIRD-PARTY-NOTICES.txt"), notices());
writeFileSync(join(OUT, "manifest.json"), `${JSON.stringify(manifest, null, 2)}\n`);
for (const [name, text] of Object.entries(content)) console.log(`${manifest[name]}: ${text.length} bytes`);
console.log(`pages: ${Object.keys(ours).length - 1} files`);
