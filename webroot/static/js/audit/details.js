/** What an entry of the audit says beside who did what: field by field, as people read it. */
import { h } from "../dom.js";
import { differences } from "../job/definition.js";
import { pairsOf } from "../job/values.js";
import { visible } from "../printed.js";
import { labelOf } from "../schema.js";
import { stamp } from "../stamp.js";
import { listed, t, word } from "../text.js";

/** @typedef {import("../dom.js").Child} Child */

/** @param {{details: Record<string, any>}} entry */
export function details({ details: { changes = {}, ...others } }) {
  const fields = Object.keys(changes);
  const names = Object.keys(others);
  if (!fields.length && !names.length) return null;
  return h("details", {}, h("summary", {}, listed([...fields.map(labelOf), ...names.map((name) => word("detail", name))])),
    fields.length > 0 && differences(t("column.details"), fields.map((field) => ({ field, ...sidesOf(changes[field]) }))),
    h("dl", { class: "pairs" }, names.flatMap((name) => [h("dt", {}, word("detail", name)), h("dd", {}, shown(name, others[name]))])));
}

/** How a field was and is. Of variables there are names alone (common/access/audit_diff.py). @param {any} change @returns {{before?: any, after?: any}} */
function sidesOf(change) {
  if (typeof change === "string") return { after: change };
  const { added = [], removed = [], changed = [] } = change;
  if (added.length + removed.length + changed.length) {
    const masked = (/** @type {string[]} */ names, value = "***") => names.map((name) => [name, value]);
    return { before: Object.fromEntries(masked([...removed, ...changed])), after: Object.fromEntries([...masked(added), ...masked(changed, `*** ${t("audit.changed")}`)]) };
  }
  return { before: whole(change.from), after: whole(change.to) };
}

/** Of a long value there is the beginning. @param {any} value */
const whole = (value) => (typeof value?.begins === "string" ? `${value.begins}… ${t("audit.cut", { n: value.characters })}` : value);

/** @param {string} name @param {any} given @returns {Child | Child[]} */
function shown(name, given) {
  const value = whole(given);
  if (name.endsWith("Ms") && typeof value === "number") return stamp(value);
  if (typeof value === "boolean") return t(value ? "job.yes" : "job.no");
  if (Array.isArray(value)) return value.length ? value.map((one) => h("div", {}, shown("", one))) : t("job.none");
  if (value !== null && typeof value === "object") return pairsOf(value).map((one) => h("div", {}, h("code", {}, one)));
  if (value === null || value === "") return t("job.none");
  if (name === "way") return word("via", value);
  return name === "role" ? word("role", value) : visible(String(value));
}
