/** A plain table from columns and rows. */
import { h } from "./dom.js";
import { t } from "./text.js";

/** @typedef {import("./dom.js").Child} Child */
/** @template T @typedef {{key: string, draw: (row: T) => Child | Child[], className?: string}} Column */

/**
 * @template T
 * @param {string} caption for who cannot see the heading above
 * @param {Column<T>[]} columns `key`: its heading is the text `column.<key>`
 * @param {T[]} rows
 * @param {string} [className]
 * @param {(row: T) => unknown} [keyOf] what a row is known by when it is drawn again; by its place without
 */
export function grid(caption, columns, rows, className = "auto", keyOf = () => null) {
  return h("table", { class: `grid ${className}` },
    h("caption", { class: "visually-hidden" }, caption),
    h("thead", {}, h("tr", {}, columns.map(({ key, className: name }) => h("th", { scope: "col", class: name }, t(`column.${key}`))))),
    h("tbody", {}, rows.map((row) => h("tr", { "data-row": true, "data-key": keyOf(row) }, columns.map(({ key, draw, className: name }) => h("td", { class: name, "data-label": t(`column.${key}`) }, h("div", {}, draw(row))))))));
}

/** Facts: terms with what is known of them; what is not known is left out. @param {[string, Child | Child[]][]} pairs */
export function facts(pairs) {
  const isKnown = (/** @type {any} */ value) => (Array.isArray(value) ? value.some(isKnown) : value !== null && value !== undefined && value !== false && value !== "");
  return pairs.filter(([, value]) => isKnown(value)).map(([key, value]) => h("div", { "data-key": key }, h("dt", {}, t(key)), h("dd", {}, value)));
}
