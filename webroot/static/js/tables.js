/** What the tables of small records have in common. */
import { h, icon } from "./dom.js";
import { grid } from "./grid.js";
import { t } from "./text.js";

/** @param {string} caption @param {any[]} columns @param {any[]} items @param {(one: any) => string} keyOf */
export function table(caption, columns, items, keyOf) {
  if (!items.length) return h("p", { class: "muted" }, t("account.none"));
  return h("div", { class: "scroll-x", role: "group", tabindex: 0, "aria-label": t(caption) }, grid(t(caption), columns, items, "auto stack", keyOf));
}

/** @param {string} path @param {string} what */
export function removal(path, what) {
  const label = t("access.remove");
  return h("button", { type: "button", class: "btn btn-quiet btn-icon", "data-key": "remove", "data-remove": path, "data-what": what, "aria-label": `${label}: ${what}`, title: label }, icon("trash"));
}
