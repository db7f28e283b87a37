// The console's own scripts, as one file for each page: its page.js with everything that it imports, minified.
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";

const OF_A_PAGE = /import\(`\.\/\$\{page\}\/page\.js`\)/g;

/** @param {string} scripts the folder @returns {Promise<Record<string, string>>} the text of each file, by its name */
export async function pages(scripts) {
  const folders = readdirSync(scripts).filter((name) => existsSync(join(scripts, name, "page.js")));
  return Object.fromEntries(await Promise.all(folders.map(async (name) => [`${name}.js`, await page(scripts, name)])));
}

/** @param {string} scripts @param {string} name @returns {Promise<string>} */
async function page(scripts, name) {
  const main = join(scripts, "main.js");
  const text = readFileSync(main, "utf8");
  if (!OF_A_PAGE.test(text)) throw new Error("main.js does not import ./${page}/page.js");
  const contents = text.replace(OF_A_PAGE, `import("./${name}/page.js")`);
  const result = await build({
    stdin: { contents, resolveDir: scripts, sourcefile: main },
    bundle: true,
    minify: true,
    write: false,
    format: "esm",
    target: "es2022",
  });
  return result.outputFiles[0].text;
}

/** @param {string} scripts @returns {string} what tells, as manager/console/assets.py does, whether a script has changed since */
export function hashOf(scripts) {
  const digest = createHash("sha256");
  for (const name of readdirSync(scripts, { recursive: true }).filter((one) => one.endsWith(".js")).sort()) {
    const content = readFileSync(join(scripts, name));
    digest.update(`js/${name}\0${content.length}\0`).update(content);
  }
  return digest.digest("hex").slice(0, 12);
}
