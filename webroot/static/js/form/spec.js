/** A job as the form knows it: field by field, each by its name in the API. */

/** @typedef {Record<string, any>} Spec */

/** What a field has when nobody has said anything; docs/jobs.md is the source. @type {Record<string, any>} */
export const DEFAULTS = {
  name: "", command: "", cronExpr: null, every: null, offset: null, after: null, at: null, timezone: "UTC", enabled: true,
  startAt: null, endAt: null, calendar: null, jitterSeconds: 0, overlap: "skip", timeoutSeconds: 0, killGraceSeconds: 5,
  "retry.limit": 0, "retry.delaySeconds": 10, "retry.backoff": 2, "retry.maxDelaySeconds": 3600, "retry.jitter": 0,
  "retry.onExitCodes": [], "retry.otherWorker": false, "misfire.policy": "latest", "misfire.graceSeconds": 60,
  "misfire.windowSeconds": 3600, "misfire.limit": 10, onWorkerLost: "record", lostAfterSeconds: null, workers: {},
  broadcast: false, slots: 1, priority: 0, env: {}, workdir: null, user: null, shell: null, outputLimitBytes: 262144, labels: {},
};

export const FIELDS = Object.keys(DEFAULTS);
/** What makes a job fire: it has one of them. */
export const TRIGGERS = ["cronExpr", "every", "after", "at"];
/** All that says when; the preview is made from these. */
export const TIMING = [...TRIGGERS, "offset", "timezone", "startAt", "endAt", "calendar", "jitterSeconds"];
/** What a trigger rules out; templates/form.html hides it (data-not-with). @type {Record<string, string[]>} */
const RULED_OUT = { at: ["startAt", "endAt"], after: ["overlap", "jitterSeconds", "broadcast"] };

/** @param {Spec} spec @returns {Record<string, any>} by field, also those within `misfire` and `retry` */
export function fieldsOf(spec) {
  return Object.fromEntries(FIELDS.map((field) => {
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
  const others = TRIGGERS.filter((one) => one !== trigger);
  const out = [...others, ...(trigger === "every" ? [] : ["offset"]), ...(RULED_OUT[trigger] ?? [])];
  return { ...fields, [trigger]: fields[trigger] ?? "", ...Object.fromEntries(out.map((field) => [field, DEFAULTS[field]])) };
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
  for (const field of FIELDS) {
    const [outer, inner] = field.split(".");
    if (inner) (spec[outer] ??= {})[inner] = fields[field];
    else if (fields[field] !== "" || kept[field] !== null) spec[field] = fields[field]; // none may have a trigger of a later version
  }
  return spec;
}

/** Fields of a later version. @param {Spec} spec @returns {string[]} */
export function unknownIn(spec) {
  const known = new Set(FIELDS.map((field) => field.split(".")[0]));
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
