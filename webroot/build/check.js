// Checks the console's own scripts: they parse, every import exists and is used, every export is wanted somewhere, data
// never becomes markup, and a module stays small enough to be read at once.
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const SCRIPTS = join(dirname(fileURLToPath(import.meta.url)), "..", "static", "js");
const LINES = 200;
const MARKUP = /\.html\(|innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|parseHTML|\beval\(|new Function/;
const STYLES = /setAttribute\("style"|style: ["'`]/;

const files = readdirSync(SCRIPTS, { recursive: true }).filter((file) => file.endsWith(".js")).map((file) => join(SCRIPTS, file));
const texts = new Map(files.map((file) => [file, readFileSync(file, "utf8")]));
const faults = [];

for (const [file, text] of texts) {
  const fault = (what) => faults.push(`${relative(process.cwd(), file)}: ${what}`);
  const lines = text.split("\n").length - 1;
  if (lines > LINES) fault(`${lines} lines; a module has at most ${LINES}`);
  if (MARKUP.test(text)) fault(`makes markup or code from text: ${MARKUP.exec(text)[0]}`);
  if (STYLES.test(text)) fault("sets a style attribute, which the Content-Security-Policy forbids");
  for (const [whole, names] of text.matchAll(/^import \{([^}]*)\} from .*$/gm)) {
    const rest = text.replace(whole, "");
    for (const name of names.split(",").map((one) => one.trim().split(" as ").at(-1))) {
      if (!new RegExp(`(?<![\\w$])${name.replace("$", "\\$")}(?![\\w$])`).test(rest)) fault(`does not use ${name}, which it imports`);
    }
  }
  for (const [, name] of text.matchAll(/^export (?:async )?(?:function|const|class) (\w+)/gm)) {
    const wanted = [...texts].some(([other, otherText]) => other !== file && new RegExp(`\\b${name}\\b`).test(otherText));
    if (!wanted) fault(`exports ${name}, which nobody imports`);
  }
}

const entries = ["main.js", "early.js", "live/worker.js"].map((name) => join(SCRIPTS, name));
const options = { bundle: true, write: false, outdir: "out", format: "esm", target: "es2022", logLevel: "warning" };
const { warnings } = await build({ entryPoints: entries, ...options }).catch(() => ({ warnings: [{ text: "the scripts do not fit together" }] }));
faults.push(...warnings.map((one) => one.text));
faults.forEach((fault) => console.error(fault));
process.exit(faults.length ? 1 : 0);
