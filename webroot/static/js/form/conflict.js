/** Somebody has changed the job meanwhile: what, field by field, and what to do about it. */
import { fill, h } from "../dom.js";
import { visible } from "../printed.js";
import { labelOf, OF_TRIGGERS, PATHS } from "../schema.js";
import { stamp } from "../stamp.js";
import { t } from "../text.js";
import { fieldsOf, same, shown, unknownIn } from "./spec.js";

/**
 * @param {HTMLElement} box
 * @param {{base: Record<string, any>, spec: any, mine: Record<string, any>, current: any}} edit what it was (by
 *   field, and as it was read), what I want, what it is
 * @param {{take: (theirs: Record<string, any>) => void, overwrite: () => void}} choices `take`: the fields that they have
 *   changed; all others stay mine, as they are by then
 */
export function showConflict(box, { base, spec, mine, current }, { take, overwrite }) {
  if (!current?.spec) {
    fill(box, h("div", { class: "conflict" }, h("h2", {}, t("conflict.gone")), h("p", {}, t("conflict.gone.what")),
      h("button", { type: "button", class: "btn btn-primary", onclick: overwrite }, t("conflict.again"))));
    return;
  }
  const theirs = fieldsOf(current.spec);
  const changed = PATHS.filter((field) => !same(theirs[field], base[field]));
  const isOtherTrigger = changed.some((field) => OF_TRIGGERS.includes(field));
  const taken = isOtherTrigger ? [...changed, ...OF_TRIGGERS] : changed; // a job has one trigger: theirs as a whole
  const told = PATHS.filter((field) => changed.includes(field) || (isOtherTrigger && OF_TRIGGERS.includes(field) && !same(theirs[field], mine[field])));
  const rows = told.map((field) => row(field, base[field], theirs[field], mine[field]));
  for (const field of new Set([...unknownIn(spec), ...unknownIn(current.spec)])) {
    if (!same(spec[field], current.spec[field])) rows.push(row(field, spec[field], current.spec[field], spec[field]));
  }
  const by = [t("conflict.by", { by: current.savedBy ?? "?" }), " ", stamp(current.savedMs, { as: "ago" })];
  fill(box, h("div", { class: "conflict" },
    h("h2", { tabindex: -1 }, t("conflict.title")), h("p", {}, by),
    rows.length === 0 ? h("p", {}, t("conflict.nothing")) : h("div", { class: "scroll-x" }, h("table", { class: "grid auto" },
      h("thead", {}, h("tr", {}, ["field", "before", "now", "mine"].map((one) => h("th", { scope: "col" }, t(`conflict.${one}`))))),
      h("tbody", {}, rows))),
    h("div", { class: "form-end" },
      h("button", { type: "button", class: "btn btn-primary", onclick: () => take(Object.fromEntries(taken.map((field) => [field, theirs[field]]))) }, t("conflict.take")),
      h("button", { type: "button", class: "btn btn-danger", onclick: overwrite }, t("conflict.overwrite")))));
  box.querySelector("h2").focus();
}

/** @param {string} field @param {...any} values */
function row(field, ...values) {
  return h("tr", {}, h("th", { scope: "row" }, labelOf(field)), values.map((value) => h("td", { class: "wraps" }, shown(value) ? h("code", {}, visible(shown(value))) : h("span", { class: "muted" }, t("holds.none")))));
}
