/** Somebody has changed the job meanwhile: what, field by field, and what to do about it. */
import { fill, h } from "../dom.js";
import { stamp } from "../stamp.js";
import { t } from "../text.js";
import { FIELDS, fieldsOf, same, shown } from "./spec.js";

/**
 * @param {HTMLElement} box
 * @param {{base: Record<string, any>, mine: Record<string, any>, current: any}} edit what it was, what I want, what it is
 * @param {{take: (fields: Record<string, any>) => void, overwrite: () => void}} choices `take`: theirs where they have
 *   changed something, mine elsewhere
 */
export function showConflict(box, { base, mine, current }, { take, overwrite }) {
  if (!current?.spec) {
    fill(box, h("div", { class: "conflict" }, h("h2", {}, t("conflict.gone")), h("p", {}, t("conflict.gone.what")),
      h("button", { type: "button", class: "btn btn-primary", onclick: overwrite }, t("conflict.again"))));
    return;
  }
  const theirs = fieldsOf(current.spec);
  const changed = FIELDS.filter((field) => !same(theirs[field], base[field]));
  const merged = { ...mine, ...Object.fromEntries(changed.map((field) => [field, theirs[field]])) };
  const rows = changed.map((field) => h("tr", {}, h("th", { scope: "row" }, t(`field.${field}`)),
    [base[field], theirs[field], mine[field]].map((value) => h("td", { class: "wraps" }, h("code", {}, shown(value))))));
  const by = [t("conflict.by", { by: current.savedBy ?? "?" }), " ", stamp(current.savedMs, { as: "ago" })];
  fill(box, h("div", { class: "conflict" },
    h("h2", { tabindex: -1 }, t("conflict.title")), h("p", {}, by),
    changed.length === 0 ? h("p", {}, t("conflict.nothing")) : h("div", { class: "scroll-x" }, h("table", { class: "grid auto" },
      h("thead", {}, h("tr", {}, ["field", "before", "now", "mine"].map((one) => h("th", { scope: "col" }, t(`conflict.${one}`))))),
      h("tbody", {}, rows))),
    h("div", { class: "form-end" },
      h("button", { type: "button", class: "btn btn-primary", onclick: () => take(merged) }, t("conflict.take")),
      h("button", { type: "button", class: "btn btn-danger", onclick: overwrite }, t("conflict.overwrite")))));
  box.querySelector("h2").focus();
}
