/** The filters of the list as chips that are taken away one by one; a label of a row becomes one by a click. */
import { byId, h } from "../dom.js";
import { redraw } from "../redraw.js";
import { t } from "../text.js";
import { NO_FILTERS, query, setQuery } from "./query.js";

/** @param {() => void} changed by a chip @returns {() => void} shows what the address says */
export function startChips(changed) {
  const box = byId("active");
  const drop = (/** @type {Partial<import("./query.js").Query>} */ change) => {
    setQuery(change);
    changed();
    if (!box.contains(document.activeElement)) /** @type {HTMLElement} */ (box.querySelector("button") ?? byId("search")).focus();
  };
  byId("jobs").addEventListener("click", (event) => {
    const chip = /** @type {HTMLElement | null} */ (/** @type {Element} */ (event.target).closest("a[data-label]"));
    if (!chip || event.ctrlKey || event.metaKey || event.shiftKey) return; // another page, as any link
    event.preventDefault();
    setQuery({ label: [...new Set([...query().label, chip.dataset.label ?? ""])] });
    changed();
  });
  return () => {
    const { q, state, label } = query();
    const chips = [
      q && chip(t("jobs.chip.text", { text: q }), () => drop({ q: "" })),
      state && chip(t(`filter.${state}`), () => drop({ state: "" })),
      ...label.map((one) => chip(one, () => drop({ label: query().label.filter((other) => other !== one) }))),
    ].filter(Boolean);
    box.hidden = !chips.length;
    redraw(box, h("span", { class: "muted" }, t("jobs.chips")), chips, chips.length > 1 && h("button", { type: "button", class: "btn btn-quiet", "data-key": "all", onclick: () => drop(NO_FILTERS) }, t("jobs.filters.clear")));
  };
}

/** @param {string} text @param {() => void} drop */
const chip = (text, drop) => h("span", { class: "label", "data-key": text }, h("strong", {}, text), " ",
  h("button", { type: "button", class: "btn btn-quiet btn-icon", "aria-label": t("runs.drop", { what: text }), title: t("runs.drop", { what: text }), onclick: drop }, "×"));
