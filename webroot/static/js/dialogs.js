/** Dialogs on Bootstrap's Modal, which keeps the focus inside; at the end it goes back to where it was. */
import { fill, h, hold, icon, isHeld } from "./dom.js";
import { t } from "./text.js";
import { Modal } from "./vendor.js";

/** @typedef {import("./dom.js").Child} Child */

/**
 * Asks. Resolves with the reason as typed ("" without a field for it), or null when it was called off.
 * @param {{title: string, body?: Child[], action: string, tone?: "danger" | "primary", reason?: string | null}} question
 *   `reason`: the label of a text field, or null for none
 * @returns {Promise<string | null>}
 */
export function ask({ title, body = [], action, tone = "primary", reason = null }) {
  if (document.querySelector(".modal")) return Promise.resolve(null); // a double click has asked already
  const field = h("input", { class: "form-control", type: "text", id: "reason", maxlength: 300, autocomplete: "off" });
  const submit = h("button", { type: "submit", class: `btn btn-${tone}` }, action);
  const asked = reason === null ? [] : [h("label", { class: "form-label", for: "reason" }, reason), field];
  const form = h("form", { class: "modal-content" }, head(title), h("div", { class: "modal-body" }, body, asked),
    h("div", { class: "modal-footer" }, h("button", { type: "button", class: "btn btn-plain", "data-bs-dismiss": "modal" }, t("cancel")), submit));
  return new Promise((resolve) => {
    let answer = /** @type {string | null} */ (null);
    const hide = show(form, { focus: reason === null ? submit : field, closed: () => resolve(answer) });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      answer = /** @type {HTMLInputElement} */ (field).value.trim();
      hide();
    });
  });
}

/**
 * Asks with fields of its own, as often as it takes.
 * @param {{title: string, body: Child[], action: string, tone?: "danger" | "primary", focus?: HTMLElement, send: () => Promise<Child[] | null>}} question
 *   `focus`: what is typed first
 *   `send`: carries it out. What it gives takes the place of the question (nothing: the dialog closes); null: it could
 *   not be done, and it has said why
 * @returns {Promise<boolean>} whether it was carried out, also where nobody has waited for that
 */
export function askFor({ title, body, action, tone = "primary", focus, send }) {
  if (document.querySelector(".modal")) return Promise.resolve(false); // it was asked already, while this was on its way
  const submit = h("button", { type: "submit", class: `btn btn-${tone}` }, action);
  const dismiss = h("button", { type: "button", class: "btn btn-plain", "data-bs-dismiss": "modal" }, t("cancel"));
  const inner = h("div", { class: "modal-body" }, body);
  const form = h("form", { class: "modal-content", novalidate: true }, head(title), inner, h("div", { class: "modal-footer" }, dismiss, submit));
  return new Promise((resolve) => {
    let done = false;
    const hide = show(form, { focus: focus ?? submit, closed: () => isHeld(submit) || resolve(done) });
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      if (done || isHeld(submit)) return;
      hold(submit, true);
      const told = await send().finally(() => hold(submit, false));
      if (!form.isConnected) {
        if (told?.length) tellNext(title, told); // it may be what is shown once
        return resolve(told !== null);
      }
      if (told === null) return;
      done = true;
      if (!told.length) return hide();
      fill(inner, told);
      submit.remove();
      dismiss.textContent = t("close");
      (inner.querySelector("a") ?? dismiss).focus();
    });
  });
}

/** Tells something. @param {string} title @param {Child[]} body */
export function tell(title, body) {
  show(h("div", { class: "modal-content" }, head(title), h("div", { class: "modal-body", tabindex: 0 }, body)));
}

/** The same, after the dialog that is open. @param {string} title @param {Child[]} body */
function tellNext(title, body) {
  const open = document.querySelector(".modal");
  if (open) open.addEventListener("hidden.bs.modal", () => tellNext(title, body));
  else tell(title, body);
}

/** @param {string} title */
function head(title) {
  const close = h("button", { type: "button", class: "btn btn-quiet btn-icon", "data-bs-dismiss": "modal", "aria-label": t("close") }, icon("x-lg"));
  return h("div", { class: "modal-header" }, h("h2", { class: "modal-title", id: "dialog-title" }, title), close);
}

/**
 * @param {HTMLElement} content
 * @param {{focus?: HTMLElement, closed?: () => void}} [options]
 * @returns {() => void} hides it
 */
function show(content, { focus, closed } = {}) {
  const element = h("div", { class: "modal", tabindex: -1, "aria-labelledby": "dialog-title" },
    h("div", { class: "modal-dialog modal-dialog-scrollable" }, content));
  const before = /** @type {HTMLElement | null} */ (document.activeElement);
  document.body.append(element);
  const modal = new Modal(element);
  element.addEventListener("shown.bs.modal", () => focus?.focus());
  element.addEventListener("hidden.bs.modal", () => {
    modal.dispose();
    element.remove();
    giveBack(before);
    closed?.();
  });
  modal.show();
  return () => modal.hide();
}

/** What has been drawn again meanwhile has the same label. @param {HTMLElement | null} before what had the focus */
function giveBack(before) {
  const label = before?.getAttribute("aria-label");
  const again = label ? document.querySelector(`[aria-label="${CSS.escape(label)}"]`) : null;
  /** @type {HTMLElement | null} */ (before?.isConnected ? before : again)?.focus();
}
