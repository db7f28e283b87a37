/** The fields of a job in words, by its schema: all of them, and those in which two versions differ. */
import { h } from "../dom.js";
import { duration } from "../durations.js";
import { grid } from "../grid.js";
import { redraw } from "../redraw.js";
import { choiceOf, FIELDS, isGroup, labelOf, TIMING } from "../schema.js";
import { stamp } from "../stamp.js";
import { size, t } from "../text.js";
import { commandOf, outside, pairsOf, textOf } from "./values.js";

/** @typedef {import("../dom.js").Child} Child */

/** What stands above on the page already. */
const ABOVE = ["name", "command", "enabled", "description", "links"];

/** @param {HTMLElement} box a dl @param {any} job, or a version of one @param {string[]} above fields that are left out */
export function showDefinition(box, { spec, savedMs, savedBy, revision }, above = ABOVE) {
  const rows = Object.entries(spec).filter(([field]) => !above.includes(field)).flatMap(([field, value]) => partsOf(field, value))
    .filter(([field, value]) => value !== null || !TIMING.includes(field)); // without a value these say nothing
  redraw(box,
    rows.flatMap(([field, value]) => [h("dt", {}, labelOf(field)), h("dd", {}, valueOf(field, value))]),
    h("dt", {}, t("job.saved")), h("dd", {}, stamp(savedMs), ` ${savedBy ?? ""}, `, t("job.revision", { revision: String(revision) })));
}

/** Field by field. @param {string} caption @param {any[]} changes */
export function differences(caption, changes) {
  const rows = changes.flatMap(({ field, before, after }) => {
    const [then, now] = [new Map(partsOf(field, before)), new Map(partsOf(field, after))];
    return [...new Set([...then.keys(), ...now.keys()])].map((path) => ({ field: path, before: then.get(path), after: now.get(path) }))
      .filter((one) => JSON.stringify(one.before) !== JSON.stringify(one.after) && !(isNothing(one.before) && isNothing(one.after)));
  });
  if (!rows.length) return h("p", { class: "muted" }, t("versions.same"));
  return grid(caption, [
    { key: "field", draw: (/** @type {any} */ one) => labelOf(one.field) },
    { key: "before", draw: (/** @type {any} */ one) => valueOf(one.field, one.before), className: "wraps" },
    { key: "after", draw: (/** @type {any} */ one) => valueOf(one.field, one.after), className: "wraps" },
  ], rows, "auto stack");
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

/** A link, or who is told of what. @param {any} entry */
function entryOf({ title, url, to, on, after }) {
  if (url) return h("div", {}, outside(title || url, url));
  const said = [on?.length && on.join(", "), after > 1 && t("job.inARow", { n: after })].filter(Boolean);
  return line(`${to}${said.length ? `: ${said.join("; ")}` : ""}`);
}

/** @param {string} text */
const line = (text) => h("div", {}, h("code", {}, text));
