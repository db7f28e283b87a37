/** What is opened between the hours and the lanes: one thing at a time, closed by a button. */
import { fill, h, icon } from "../dom.js";
import { t } from "../text.js";
import { zoneFor } from "../zones.js";

/** What is shown; a later one takes its place. */
let shown = 0;
/** What had the focus before. */
let opener = /** @type {HTMLElement | null} */ (null);

/** @param {HTMLElement} place @returns {() => boolean} whether it is shown still */
export function opened(place) {
  const mine = ++shown;
  opener = /** @type {HTMLElement | null} */ (document.activeElement);
  place.hidden = false;
  return () => mine === shown;
}

/** @param {HTMLElement} place */
export function close(place) {
  shown += 1;
  place.hidden = true;
  fill(place);
  opener?.focus(); // else whoever closes it by a key is nowhere
}

/** @param {string} title @param {HTMLElement} place */
export const head = (title, place) => h("div", { class: "section-head" }, h("h2", { tabindex: -1 }, title),
  h("button", { type: "button", class: "btn btn-quiet btn-icon end", "aria-label": t("close"), onclick: () => close(place) }, icon("x-lg")));

/** @param {string} title @param {string[]} columns @param {HTMLElement[]} rows @param {number} [numbers] so many of the last columns */
export const table = (title, columns, rows, numbers = 0) => h("div", { class: "scroll-x chart-table", role: "group", tabindex: 0, "aria-label": title },
  h("table", { class: "grid auto" }, h("caption", { class: "visually-hidden" }, title), h("thead", {}, h("tr", {}, columns.map((text, at) => (text ? h("th", { scope: "col", class: at >= columns.length - numbers ? "num" : null }, text) : h("td"))))), h("tbody", {}, rows)));

/** A schedule is in the zone of its job, where the reader sees times in another. @param {{timezone: string}} one */
export const zoneOf = ({ timezone }) => timezone !== zoneFor() && h("span", { class: "zone" }, " ", timezone);
