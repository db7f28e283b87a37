/** What the servers say, in the reader's language: the table has each text, with gaps, in English and in the others. */
import { language, t } from "./text.js";

/** Members of answers that etcron has said, whoever wrote them down: a worker's text lies in etcd. */
const SAID = new Set(["message", "remedy", "detail", "problem", "problems", "warnings", "skips", "note", "notes", "summary", "reason", "err", "waitsFor", "why", "lastError"]);
/** Of those, members that users write as well: what is said in them has to be said at length. */
const USERS_TOO = new Set(["reason", "note", "err"]);
const AT_LENGTH = 12;
/** Members that are a user's. */
const USERS = new Set(["spec", "output", "env", "labels", "description"]);
const ENGLISH = "en";
const PATIENCE_MS = 5_000;
/** After the table could not be read. */
const PAUSE_MS = 10_000;
/** Between texts that were joined. */
const BETWEEN = [" | ", "; ", ", "];
const GAP = /\{(\w+)(:text)?\}/g;

/** @typedef {{code: string, text: string, gaps: {name: string, isText: boolean}[], literals: string[], weight: number}} Template */

/** @type {Template[] | null} */
let table = null;
/** @type {Promise<void> | null} */
let loading = null;
let againMs = 0;

/** Whether any text has to be looked up. */
export const isForeign = language !== ENGLISH;

/**
 * The same answer, with what etcron has said in the reader's language. The table is read when the first text comes; where
 * it cannot be, texts stay as they are, and the next one asks for it again.
 * @template T
 * @param {T} answer
 * @returns {Promise<T>}
 */
export async function inWords(answer) {
  const found = isForeign ? [...saidIn(answer)] : [];
  if (found.length && !table && performance.now() >= againMs) await (loading ??= load().catch(() => void (againMs = performance.now() + PAUSE_MS)).finally(() => void (loading = null)));
  for (const [owner, key] of found) owner[key] = (key === "message" && owner.params && spoken(owner.code, owner.params)) || said(owner[key], USERS_TOO.has(String(key)) ? AT_LENGTH : 0);
  return answer;
}

async function load() {
  const answer = await fetch(document.body.dataset.messages, { credentials: "same-origin", signal: AbortSignal.timeout(PATIENCE_MS) });
  if (!answer.ok) throw new Error(String(answer.status));
  const messages = await answer.json();
  const made = Object.entries(messages).map(([code, { en, [language]: text }]) => {
    const literals = en.replace(GAP, "\0").split("\0");
    const gaps = [...en.matchAll(GAP)].map(([, name, isText]) => ({ name, isText: Boolean(isText) }));
    return { code, text, gaps, literals, weight: literals.join("").length };
  });
  table = made.sort((one, other) => other.weight - one.weight);
}

/** Each text of it, as an owner and the key within. @param {any} value @returns {Generator<[any, string | number]>} */
function* saidIn(value) {
  if (!value || typeof value !== "object") return;
  for (const [key, inner] of Object.entries(value)) {
    if (USERS.has(key)) continue;
    if (SAID.has(key) && typeof inner === "string") yield [value, key];
    else if (SAID.has(key) && Array.isArray(inner) && typeof inner[0] === "string") yield* /** @type {[any, number][]} */ (inner.map((_, index) => [inner, index]));
    else yield* saidIn(inner);
  }
}

/**
 * A text of etcron in the reader's language; as it is, where the table does not have it.
 * @param {string} text
 * @param {number} [least] so many characters of it are etcron's own
 * @returns {string}
 */
export function said(text, least = 0) {
  if (!table || !/\s/.test(text)) return text;
  return known(text, { least }) ?? (least ? null : parts(text) ?? known(text, { isLoose: true })) ?? text;
}

/** What is wrong with a field, and what to do. @param {{message: string, remedy: string}} error */
export const faultOf = ({ message, remedy }) => (remedy ? t("form.fault", { message, remedy }) : message);

/** @param {string} code @param {Record<string, string>} params */
function spoken(code, params) {
  const template = table?.find((one) => one.code === code);
  return template && filled(template, template.gaps.map(({ name }) => params[name] ?? ""));
}

/**
 * @param {string} text
 * @param {{isLoose?: boolean, least?: number}} [options] `isLoose`: by a template that has nothing but what parts its gaps
 */
function known(text, { isLoose = false, least = 0 } = {}) {
  for (const template of table ?? []) {
    if (template.weight < least) break;
    if (isLoose !== !/\w/.test(template.literals.join(""))) continue;
    const values = match(template, text);
    if (values) return filled(template, values);
  }
  return null;
}

/** Several texts in one, where each of them is known. @param {string} text @returns {string | null} */
function parts(text) {
  for (const between of BETWEEN) {
    const each = text.split(between);
    if (each.length < 2) continue;
    const told = each.map((one) => known(one) ?? known(one, { isLoose: true }));
    if (told.every((one) => one !== null)) return told.join(between === ", " ? "、" : "；");
  }
  return null;
}

/** @param {Template} template @param {string[]} values of its gaps, in their order */
function filled({ text, gaps }, values) {
  return text.replace(GAP, (_, name) => {
    const at = gaps.findIndex((gap) => gap.name === name);
    const value = values[at] ?? "";
    return gaps[at]?.isText ? known(value) ?? parts(value) ?? known(value, { isLoose: true }) ?? value : value;
  });
}

/** What is in the gaps: each ends where what follows it first stands. @param {Template} template @param {string} text */
function match({ literals }, text) {
  const [first, ...others] = literals;
  const last = others.pop();
  if (!text.startsWith(first)) return null;
  if (last === undefined) return text === first ? [] : null;
  const values = [];
  let at = first.length;
  for (const literal of others) {
    const end = text.indexOf(literal, at);
    if (end < 0) return null;
    values.push(text.slice(at, end));
    at = end + literal.length;
  }
  const end = text.length - last.length;
  return end < at || !text.endsWith(last) ? null : [...values, text.slice(at, end)];
}
