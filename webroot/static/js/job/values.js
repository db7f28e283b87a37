/** The fields of a job and their values, as people read them. */
import { h } from "../dom.js";
import { duration } from "../durations.js";
import { visible } from "../printed.js";
import { size, t, word } from "../text.js";

/** @typedef {import("../dom.js").Child} Child */

/** What a field is called; one that has no name here yet is called as in the API. @param {string} path */
export const nameOf = (path) => (path === "misfire" || path === "retry" ? t(`versions.group.${path}`) : word("field", path));

/** A field with fields of its own, by these. @param {string} path @param {any} value @returns {[string, any][]} */
export function partsOf(path, value) {
  if (path !== "misfire" && path !== "retry") return [[path, value]];
  return Object.entries(value ?? {}).map(([inner, one]) => [`${path}.${inner}`, one]);
}

/** The expressions of a job, each by itself. @param {string | string[] | null} cronExpr */
export const expressions = (cronExpr) => [cronExpr ?? []].flat();

/** @param {any} value */
const isNothing = (value) => value === null || value === undefined || value === "" || (typeof value === "object" && !Object.keys(value).length);

/**
 * @param {string} path of the field, such as `misfire.limit`
 * @param {any} value
 * @returns {Child | Child[]}
 */
export function valueOf(path, value) {
  if (path === "lostAfterSeconds" && isNothing(value)) return t("job.workers.own");
  if (isNothing(value)) return t("job.none");
  if (path === "command") return commandOf(value);
  if (value === "never") return t("job.never");
  if (typeof value === "boolean") return t(value ? "job.yes" : "job.no");
  if (path === "timeoutSeconds" && value === 0) return t("job.none");
  if (/Seconds$/.test(path) && typeof value === "number") return value === 0 ? t("duration.s", { s: "0" }) : duration(value * 1000);
  if (path === "outputLimitBytes" && typeof value === "number") return size(value);
  if (typeof value === "number") return String(value);
  if (path === "workers") return selector(value).map((text) => h("div", {}, h("code", {}, text)));
  if (Array.isArray(value)) return value.map((one) => h("div", {}, h("code", {}, text(one))));
  if (typeof value === "object") return Object.entries(value).map(([name, inner]) => h("div", {}, h("code", {}, `${name}=${text(inner)}`)));
  const known = word("field", `${path}.${value}`);
  return known === `${path}.${value}` ? h("code", {}, String(value)) : known;
}

/** A line for the shell as it is; a program with its arguments one by one, so that each is seen where it begins and ends. @param {string | string[]} command */
export function commandOf(command) {
  if (!Array.isArray(command)) return h("code", { class: "command" }, visible(command));
  return h("ol", { class: "arguments command", "aria-label": t("job.arguments") }, command.map((one) => h("li", {}, h("code", {}, one === "" ? '""' : visible(one)))));
}

/** What a worker has to have, each in one text. @param {Record<string, string | string[]>} workers */
export const selector = (workers) => Object.entries(workers).map(([name, values]) => `${name}=${[values].flat().join("|")}`);

/** @param {any} value */
const text = (value) => visible(typeof value === "string" ? value : JSON.stringify(value));
