/** The fields of a job in words, by its schema: all of them, and those in which two versions differ. */
import { byId, h } from "../dom.js";
import { duration } from "../durations.js";
import { grid } from "../grid.js";
import { keep, kept } from "../kept.js";
import { visible } from "../printed.js";
import { redraw } from "../redraw.js";
import { choiceOf, DEFAULTS, FIELDS, isGroup, labelOf, TIMING } from "../schema.js";
import { stamp } from "../stamp.js";
import { size, t } from "../text.js";
import { commandOf, outside, pairsOf, textOf } from "./values.js";

/** @typedef {import("../dom.js").Child} Child */

const KEY = "etcron.definition.all";
/** The heading of the page says these. */
const ABOVE = ["name", "enabled"];

/** What differs from the defaults, or all of it. @param {any} job, or a version of one */
export function showDefinition(job) {
  const { spec, savedMs, savedBy, revision } = job;
  const isAll = kept(KEY) === "1";
  const rows = Object.entries(spec).filter(([field]) => !ABOVE.includes(field)).flatMap(([field, value]) => partsOf(field, value))
    .filter(([field, value]) => !isDefault(field, value) || (isAll && (value !== null || !TIMING.includes(field)))); // without a value these say nothing
  const toggle = h("button", { type: "button", class: "btn btn-plain", "data-key": "all", "aria-pressed": String(isAll) }, t("definition.all"));
  redraw(byId("definition-head"), h("span", {}, t("job.saved"), " ", stamp(savedMs), ` ${savedBy ?? ""}, `, t("job.revision", { revision: String(revision) }), "."), " ", !isAll && h("span", { class: "muted" }, t("definition.changed")), " ", toggle);
  byId("definition-head").onclick = ({ target }) => {
    if (!(/** @type {Element} */ (target).closest("button"))) return;
    keep(KEY, isAll ? "" : "1");
    showDefinition(job);
  };
  redraw(byId("definition"), rows.flatMap(([field, value]) => [
    h("dt", { "data-key": `${field} label` }, labelOf(field)), h("dd", { "data-key": field }, valueOf(field, value), isAll && isDefault(field, value) && h("span", { class: "sub" }, ` (${t("definition.default")})`))]));
}

/** @param {string} path @param {any} value */
const isDefault = (path, value) => JSON.stringify(value) === JSON.stringify(DEFAULTS[path]) || (isNothing(value) && isNothing(DEFAULTS[path]));

/** Field by field. @param {string} caption @param {any[]} changes */
export function differences(caption, changes) {
  const rows = changes.flatMap(({ field, before, after }) => {
    const [then, now] = [new Map(partsOf(field, before)), new Map(partsOf(field, after))];
    return [...new Set([...then.keys(), ...now.keys()])].map((path) => ({ field: path, before: then.get(path), after: now.get(path) }))
      .filter((one) => JSON.stringify(one.before) !== JSON.stringify(one.after) && !(isNothing(one.before) && isNothing(one.after)));
  });
  if (!rows.length) return h("p", { class: "muted" }, t("versions.same"));
  return grid(caption, [
    { key: "field", draw: (/** @type {any} */ one) => nameOf(one.field) },
    { key: "before", draw: (/** @type {any} */ one) => marked(one.field, one.before, one.after, "del"), className: "wraps" },
    { key: "after", draw: (/** @type {any} */ one) => marked(one.field, one.after, one.before, "ins"), className: "wraps" },
  ], rows, "auto stack");
}

/** What a field is called where it has changed: whether the job fires at all is no instruction there. @param {string} path */
export const nameOf = (path) => (path === "enabled" ? t("versions.enabled") : labelOf(path));

/** Whether two values are texts of which parts can be told. @param {string} path @param {any} before @param {any} after */
const areTexts = (path, before, after) => typeof before === "string" && typeof after === "string" && !choiceOf(path, before) && !choiceOf(path, after);

/** What two texts have before and after that in which they differ, in whole words. @param {string} one @param {string} other @returns {[number, number]} */
function commonOf(one, other) {
  const most = Math.min(one.length, other.length);
  let start = 0, end = 0;
  while (start < most && one[start] === other[start]) start += 1;
  while (end < most - start && one.at(-1 - end) === other.at(-1 - end)) end += 1;
  while (start > 0 && /\w/.test(one[start - 1])) start -= 1;
  while (end > 0 && /\w/.test(one.at(-end) ?? "")) end -= 1;
  return [start, end];
}

/** A value, of a text with what the other one does not have. @param {string} path @param {any} value @param {any} other @param {"del" | "ins"} tag */
function marked(path, value, other, tag) {
  if (path === "enabled") return stateOf(value);
  if (!areTexts(path, value, other)) return valueOf(path, value);
  const [start, end] = commonOf(value, other);
  const between = value.slice(start, value.length - end);
  return h("code", { class: "command" }, visible(value.slice(0, start)), between && h(tag, {}, visible(between)), visible(value.slice(value.length - end)));
}

/** @param {any} enabled */
const stateOf = (enabled) => t(enabled === false ? "verdict.paused" : "verdict.enabled");

/** A change in one line: what is gone and what is new. @param {{field: string, before: any, after: any}} change */
export function inline({ field, before, after }) {
  const line = (/** @type {(Child | Child[])[]} */ ...said) => h("div", { class: "sub inline-of" }, `${nameOf(field)}: `, ...said);
  if (field === "enabled") return line(h("del", {}, stateOf(before)), " ", h("ins", {}, stateOf(after)));
  if (areTexts(field, before, after)) {
    const [start, end] = commonOf(before, after);
    const [gone, come] = [before, after].map((text) => text.slice(start, text.length - end));
    return line(h("code", {}, visible(before.slice(0, start)), gone && h("del", {}, visible(gone)), come && h("ins", {}, visible(come)), visible(before.slice(before.length - end))));
  }
  const [then, now] = [new Map(partsOf(field, before)), new Map(partsOf(field, after))];
  return h("div", {}, [...new Set([...then.keys(), ...now.keys()])].filter((path) => JSON.stringify(then.get(path)) !== JSON.stringify(now.get(path)) && !(isNothing(then.get(path)) && isNothing(now.get(path))))
    .map((path) => h("div", { class: "sub inline-of" }, `${labelOf(path)}: `, h("del", {}, shortOf(path, then.get(path))), " ", h("ins", {}, shortOf(path, now.get(path))))));
}

/** A field with fields of its own, by these. @param {string} path @param {any} value @returns {[string, any][]} */
function partsOf(path, value) {
  return isGroup(path) ? Object.entries(value ?? {}).map(([inner, one]) => [`${path}.${inner}`, one]) : [[path, value]];
}

/** @param {any} value */
const isNothing = (value) => value === null || value === undefined || value === "" || (typeof value === "object" && !Object.keys(value).length);

/**
 * @param {string} path of the field, such as `misfire.limit`
 * @param {any} value
 * @returns {Child | Child[]}
 */
function valueOf(path, value) {
  const { input, unit, unset } = FIELDS.get(path) ?? {};
  if (isNothing(value)) return unset || t("job.none");
  if (value === 0 && unit === "seconds" && DEFAULTS[path] === 0) return t("definition.off");
  if (input === "command") return commandOf(value);
  if (typeof value === "boolean") return t(value ? "job.yes" : "job.no");
  if (typeof value !== "object" && choiceOf(path, value)) return choiceOf(path, value);
  if (typeof value === "number" && unit === "seconds") return value === 0 ? t("duration.s", { s: "0" }) : duration(value * 1000);
  if (typeof value === "number") return unit === "bytes" ? size(value) : String(value);
  if (input === "pairs" && typeof value === "object") return pairsOf(value).map(line);
  if (input === "rows" && Array.isArray(value)) return value.map(entryOf);
  if (Array.isArray(value)) return value.map((one) => line(textOf(one)));
  if (typeof value === "object") return Object.entries(value).map(([name, inner]) => line(`${name}=${textOf(inner)}`));
  return h("code", {}, value);
}

/** The same in a line. @param {string} path @param {any} value @returns {Child | Child[]} */
function shortOf(path, value) {
  const said = valueOf(path, value);
  return Array.isArray(said) ? said.flatMap((one, at) => (at ? [", ", one] : [one])) : said;
}

/** A link, or who is told of what. @param {any} entry */
function entryOf({ title, url, to, on, after }) {
  if (url) return h("div", {}, outside(title || url, url));
  const said = [on?.length && on.join(", "), after > 1 && t("job.inARow", { n: after })].filter(Boolean);
  return line(`${to}${said.length ? `: ${said.join("; ")}` : ""}`);
}

/** @param {string} text */
const line = (text) => h("div", {}, h("code", {}, text));
