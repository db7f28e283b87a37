/** What the page says: toasts for what the user did, a line for the screen reader, a note where something is wrong. */
import { byId, fill, h, icon } from "./dom.js";
import { stamp } from "./stamp.js";
import { t } from "./text.js";

const SHOWN_MS = 6000;
/** Who thinks better of it needs a while. */
const UNDONE_MS = 15_000;

/**
 * What became of an action; it stays while the pointer or the focus is on it.
 * @param {string} text
 * @param {"ok" | "bad"} [tone]
 * @param {(() => void) | null} [undo] takes it back
 */
export function toast(text, tone = "ok", undo = null) {
  const close = h("button", { type: "button", class: "btn btn-quiet btn-icon", "aria-label": t("close"), onclick: () => box.remove() }, icon("x-lg"));
  const back = undo && h("button", { type: "button", class: "btn btn-plain", "data-undo": true, onclick: () => { box.remove(); undo(); } }, t("undo"));
  const box = h("div", { class: `toast-box tone-${tone}` }, icon(tone === "ok" ? "check-circle-fill" : "x-circle-fill"), h("span", {}, withTimes(text)), back, close);
  byId("toasts").append(box);
  const leave = () => (box.matches(":hover, :focus-within") ? window.setTimeout(leave, SHOWN_MS) : box.remove());
  if (tone === "ok") window.setTimeout(leave, undo ? UNDONE_MS : SHOWN_MS);
}

/** The newest action that can be taken back is. */
export const undoNewest = () => /** @type {HTMLElement | undefined} */ ([...document.querySelectorAll("[data-undo]")].at(-1))?.click();

/** Said by screen readers when they are done with what they say now. @param {string} text */
export function announce(text) {
  byId("announcer").textContent = text;
}

/** What notes say, by what was drawn: one that stays is not read aloud again. @type {WeakMap<Node, string | null>} */
const noted = new WeakMap();

/**
 * A note inside an element, or none.
 * @param {Element} where
 * @param {string | null} text
 * @param {"bad" | "warn" | "info"} [tone]
 */
export function note(where, text, tone = "bad") {
  const shown = where.firstChild;
  if (shown ? noted.get(shown) === text : !text) return;
  const drawn = text ? said(text, tone) : null;
  fill(where, drawn);
  if (drawn) noted.set(drawn, text);
}

/** One note. @param {import("./dom.js").Child | import("./dom.js").Child[]} text @param {"bad" | "warn" | "info"} tone */
export function said(text, tone) {
  return h("div", { class: `note note-${tone}` }, icon(tone === "info" ? "info-circle" : "exclamation-triangle-fill"), h("div", {}, typeof text === "string" ? withTimes(text) : text));
}

/** A server's text with its instants as the reader has all others. @param {string} text */
const withTimes = (text) => text.split(/(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)/).map((one, at) => (at % 2 ? stamp(Date.parse(one)) : one));
