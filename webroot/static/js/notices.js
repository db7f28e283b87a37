/** What the page says: toasts for what the user did, a line for the screen reader, a note where something is wrong. */
import { byId, fill, h, icon } from "./dom.js";
import { t } from "./text.js";

const SHOWN_MS = 6000;

/** What became of an action. @param {string} text @param {"ok" | "bad"} [tone] */
export function toast(text, tone = "ok") {
  const close = h("button", { type: "button", class: "btn btn-quiet btn-icon", "aria-label": t("close"), onclick: () => box.remove() }, icon("x-lg"));
  const box = h("div", { class: `toast-box tone-${tone}` }, icon(tone === "ok" ? "check-circle-fill" : "x-circle-fill"), h("span", {}, text), close);
  byId("toasts").append(box);
  if (tone === "ok") window.setTimeout(() => box.remove(), SHOWN_MS);
}

/** Said by screen readers when they are done with what they say now. @param {string} text */
export function announce(text) {
  byId("announcer").textContent = text;
}

/**
 * A note inside an element, or none.
 * @param {Element} where
 * @param {string | null} text
 * @param {"bad" | "warn" | "info"} [tone]
 */
export function note(where, text, tone = "bad") {
  if (where.textContent === (text ?? "")) return;
  fill(where, text && said(text, tone));
}

/** One note. @param {import("./dom.js").Child | import("./dom.js").Child[]} text @param {"bad" | "warn" | "info"} tone */
export function said(text, tone) {
  return h("p", { class: `note note-${tone}` }, icon(tone === "info" ? "info-circle" : "exclamation-triangle-fill"), h("span", {}, text));
}
