/** The words of the page, from the catalog of its language. */

/** @type {Record<string, string>} */
const catalog = await read(document.body.dataset.catalog).catch((error) => {
  document.getElementById("unread")?.removeAttribute("hidden");
  throw error; // without words there is no page
});

/** @param {string | undefined} path */
async function read(path) {
  const answer = await fetch(path, { credentials: "same-origin" });
  if (!answer.ok) throw new Error(`${answer.status} ${path}`);
  return answer.json();
}

export const language = document.documentElement.lang;
const plurals = new Intl.PluralRules(language);
const numbers = new Intl.NumberFormat(language);

/**
 * The text of a key. `{name}` stands for a parameter; with a parameter `n` the plural forms `key.one` and `key.other`
 * are looked at first. A key that is missing shows itself (and fails a test).
 * @param {string} key
 * @param {Record<string, string | number>} [values]
 * @returns {string}
 */
export function t(key, values = {}) {
  const form = typeof values.n === "number" ? `${key}.${plurals.select(values.n)}` : key;
  const text = catalog[form] ?? catalog[`${key}.other`] ?? catalog[key] ?? key;
  return text.replace(/\{(\w+)\}/g, (_, name) => {
    const value = values[name];
    return typeof value === "number" ? numbers.format(value) : String(value ?? "");
  });
}

/**
 * The word for one of a closed set of codes, or the code itself where a newer manager has one more.
 * @param {string} set
 * @param {string | null | undefined} code
 * @param {string | null | undefined} [otherwise] in place of the code
 * @returns {string}
 */
export function word(set, code, otherwise = code) {
  return code ? (catalog[`${set}.${code}`] ?? otherwise ?? "") : "";
}

/** Words one after the other, as the language parts them. @param {string[]} words */
export const listed = (words) => words.join(t("list.between"));

/** @param {number} value @param {number} [digits] */
export function number(value, digits = 0) {
  return value.toLocaleString(language, { maximumFractionDigits: digits });
}

/** @param {number | null | undefined} bytes */
export function size(bytes) {
  if (bytes === null || bytes === undefined) return "";
  const units = ["B", "KB", "MB", "GB", "TB"];
  const power = bytes < 1024 ? 0 : Math.min(units.length - 1, Math.floor(Math.log2(bytes) / 10));
  return `${number(bytes / 1024 ** power, power && bytes / 1024 ** power < 10 ? 1 : 0)} ${units[power]}`;
}
