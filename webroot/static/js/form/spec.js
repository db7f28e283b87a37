/** A job as the form knows it: field by field, each by its name in the API. */

/** @typedef {Record<string, any>} Spec */

/** What a field has when nobody has said anything; docs/job-model.md is the source. @type {Record<string, any>} */
export const DEFAULTS = {
  name: "", command: "", cronExpr: "", timezone: "UTC", enabled: true, overlap: "skip", timeoutSeconds: 0,
  killGraceSeconds: 5, outputLimitBytes: 262144, "misfire.policy": "latest", "misfire.graceSeconds": 60,
  "misfire.windowSeconds": 3600, "misfire.limit": 10, lostAfterSeconds: null, env: {}, labels: {},
};

export const FIELDS = Object.keys(DEFAULTS);

/** @param {Spec} spec @returns {Record<string, any>} by field, also those within `misfire` */
export function fieldsOf(spec) {
  return Object.fromEntries(FIELDS.map((field) => {
    const [outer, inner] = field.split(".");
    const value = inner ? spec[outer]?.[inner] : spec[field];
    return [field, value ?? DEFAULTS[field]];
  }));
}

/** @param {Record<string, any>} fields @returns {Spec} */
export function specOf(fields) {
  /** @type {Spec} */
  const spec = {};
  for (const field of FIELDS) {
    const [outer, inner] = field.split(".");
    if (inner) (spec[outer] ??= {})[inner] = fields[field];
    else spec[field] = fields[field];
  }
  return spec;
}

/** @param {any} one @param {any} other */
export const same = (one, other) => JSON.stringify(sorted(one)) === JSON.stringify(sorted(other));

/** A value in one line, for people. @param {any} value */
export function shown(value) {
  if (value === null || value === undefined) return "";
  if (typeof value !== "object") return String(value);
  return Object.entries(value).map(([key, text]) => `${key}=${text}`).join(", ");
}

/** @param {any} value */
const sorted = (value) => (value && typeof value === "object" ? Object.entries(value).sort() : value);
