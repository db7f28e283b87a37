/** A job as the form knows it: field by field, each by its name in the API. */
import { DEFAULTS, PATHS, ruledOut, TRIGGERS } from "../schema.js";

/** @typedef {Record<string, any>} Spec */

/** @param {Spec} spec @returns {Record<string, any>} by field, also those within `misfire` and `retry` */
export function fieldsOf(spec) {
  return Object.fromEntries(PATHS.map((field) => {
    const [outer, inner] = field.split(".");
    return [field, (inner ? spec[outer]?.[inner] : spec[field]) ?? DEFAULTS[field]];
  }));
}

/**
 * The fields of a job with this trigger: one trigger, and nothing that it rules out.
 * @param {Record<string, any>} fields
 * @param {string} trigger
 */
export function withTrigger(fields, trigger) {
  return { ...fields, [trigger]: fields[trigger] ?? "", ...Object.fromEntries(ruledOut(trigger).map((field) => [field, DEFAULTS[field]])) };
}

/** @param {Record<string, any>} fields @returns {string} */
export const triggerOf = (fields) => TRIGGERS.find((one) => fields[one] !== null) ?? TRIGGERS[0];

/**
 * @param {Record<string, any>} fields
 * @param {Spec} [kept] the spec that they were read from: what the form does not know stays as it is
 * @returns {Spec}
 */
export function specOf(fields, kept = {}) {
  /** @type {Spec} */
  const spec = structuredClone(kept);
  for (const field of PATHS) {
    const [outer, inner] = field.split(".");
    if (inner) (spec[outer] ??= {})[inner] = fields[field];
    else if (fields[field] !== "" || kept[field] !== null) spec[field] = fields[field]; // none may have a trigger of a later version
  }
  return spec;
}

/** Fields of a later version. @param {Spec} spec @returns {string[]} */
export function unknownIn(spec) {
  const known = new Set(PATHS.map((field) => field.split(".")[0]));
  return Object.keys(spec).filter((name) => !known.has(name));
}

/** @param {any} one @param {any} other */
export const same = (one, other) => JSON.stringify(sorted(one)) === JSON.stringify(sorted(other));

/** A value in one line, for people. @param {any} value */
export function shown(value) {
  if (value === null || value === undefined) return "";
  if (typeof value !== "object") return String(value);
  if (Array.isArray(value)) return JSON.stringify(value);
  return Object.entries(value).map(([key, text]) => `${key}=${text}`).join(", ");
}

/** @param {any} value */
const sorted = (value) => (value && typeof value === "object" ? Object.entries(value).sort() : value);
