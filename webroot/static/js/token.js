/** A new token: it can be read now, and never again. */
import { h } from "./dom.js";
import { t } from "./text.js";

/** @param {string} token */
export function shownOnce(token) {
  const field = h("input", { class: "form-control mono", readonly: true, value: token, "aria-label": t("account.token.shown") });
  field.addEventListener("focus", () => /** @type {HTMLInputElement} */ (field).select());
  return [h("p", {}, t("account.token.once")), field];
}
