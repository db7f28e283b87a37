/** Lists as one text, without loss: what would be misread stands in double quotes, as in JSON. */

const ENTRY = /\s*("(?:[^"\\\n]|\\.)*")\s*(?=[,\n]|$)|[^,\n]+/g;

/** Arguments: one a line, spaces and all. @param {string[]} list */
export const toLines = (list) => list.map((one) => (/[\n\r]|^\s*"|^\s*$/.test(one) ? JSON.stringify(one) : one)).join("\n");

/** Blank lines are nothing; an empty argument is `""`. @param {string} text @returns {string[]} */
export function fromLines(text) {
  return text.split("\n").filter((line) => line.trim()).map((line) => unquoted(line.trim()) ?? line);
}

/** Short values, with commas between. @param {any[]} list @param {string} [between] */
export function toEntries(list, between = ", ") {
  return list.map(String).map((one) => (one !== one.trim() || /[,\n\r]|^"|^$/.test(one) ? JSON.stringify(one) : one)).join(between);
}

/** With commas or line breaks between. @param {string} text @returns {string[]} */
export function fromEntries(text) {
  const entries = [...text.matchAll(ENTRY)].map(([whole, quoted]) => unquoted(quoted) ?? (whole.trim() || null));
  return entries.filter((one) => one !== null);
}

/** @param {string | undefined} text @returns {string | null} what stands in the quotes; null: it is not quoted */
function unquoted(text) {
  if (!text?.startsWith('"')) return null;
  try {
    const value = JSON.parse(text);
    return typeof value === "string" ? value : null;
  } catch {
    return null; // an open quote is a character like any other
  }
}
