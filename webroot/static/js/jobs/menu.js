/** What can be done to one job of the list, behind one button in its row: drawn when that is opened. */
import { act } from "../actions.js";
import { offered } from "../caller.js";
import { byId, delegate, fill, h, icon } from "../dom.js";
import { onKey } from "../keys.js";
import { jobUrl } from "../links.js";
import { t } from "../text.js";

/** @typedef {import("./cells.js").JobRow} JobRow */

/** @param {import("./table.js").JobTable} table @param {() => void} changed */
export function startMenus(table, changed) {
  const rowOf = (/** @type {Element | null} */ element) => /** @type {HTMLElement | null} */ (element?.closest("[data-row]") ?? null);
  const toggleOf = (/** @type {Element | null} */ element) => /** @type {HTMLElement | null} */ (rowOf(element)?.querySelector("[data-bs-toggle]") ?? null);
  byId("jobs").addEventListener("show.bs.dropdown", ({ target }) => {
    const row = rowOf(/** @type {Element} */ (target));
    const job = table.job(row?.dataset.name ?? "");
    if (job) fill(row?.querySelector(".dropdown-menu") ?? null, items(job));
  });
  delegate(byId("jobs"), "click", "[data-action]", async (item) => {
    const { dataset: { name } } = rowOf(item);
    toggleOf(item)?.focus(); // the menu closes, and has had it
    if (await act(item.dataset.action, name)) changed();
  });
  onKey("m", () => toggleOf(document.activeElement)?.click());
  onKey("e", () => {
    const name = rowOf(document.activeElement)?.dataset.name;
    const job = name ? table.job(name) : null;
    if (job && !offered("edit", job.spec?.labels).disabled) window.location.assign(`${jobUrl(job.name)}/edit`);
  });
}

/** @param {JobRow} job */
function items(job) {
  const toggle = job.state === "paused" ? ["resume", "play-fill"] : ["pause", "pause-fill"];
  const isBroken = job.state === "broken";
  return [
    button("run", "play-circle-fill", job, isBroken),
    link("runs", "list-ul", `${jobUrl(job.name)}#log`, job),
    link("edit", "pencil", `${jobUrl(job.name)}/edit`, job),
    link("copy", "copy", `/new?from=${encodeURIComponent(job.name)}`, job, isBroken),
    button(toggle[0], toggle[1], job, isBroken),
    button("kill", "x-octagon", job, job.running.length === 0),
    button("delete", "trash", job),
  ];
}

/** @param {string} action @param {string} name */
const labelOf = (action, name) => `${t(`action.${action}`)}: ${name}`;

/** @param {string} action @param {string} glyph @param {string} href @param {JobRow} job @param {boolean} [off] */
function link(action, glyph, href, job, off = false) {
  const { disabled, title } = offered(action, job.spec?.labels, { disabled: off });
  if (disabled) return h("button", { type: "button", class: "dropdown-item", disabled, title, "aria-label": labelOf(action, job.name) }, icon(glyph), " ", t(`action.${action}`));
  return h("a", { class: "dropdown-item", href, "aria-label": labelOf(action, job.name) }, icon(glyph), " ", t(`action.${action}`));
}

/** @param {string} action @param {string} glyph @param {JobRow} job @param {boolean} [off] */
function button(action, glyph, job, off = false) {
  const attributes = { type: "button", class: "dropdown-item", "data-action": action, "aria-label": labelOf(action, job.name) };
  return h("button", { ...attributes, ...offered(action, job.spec?.labels, { disabled: off }) }, icon(glyph), " ", t(`action.${action}`));
}
