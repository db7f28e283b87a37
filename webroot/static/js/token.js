/** A new token: it can be read now, and never again. */
import { h, icon } from "./dom.js";
import { toast } from "./notices.js";
import { t } from "./text.js";

/** @param {string} token */
export function shownOnce(token) {
  const field = h("input", { class: "form-control mono", readonly: true, value: token, "aria-label": t("account.token.shown") });
  const select = () => /** @type {HTMLInputElement} */ (field).select(); // for Ctrl-C, where plain HTTP has no clipboard
  field.addEventListener("focus", select);
  const copy = h("button", { type: "button", class: "btn btn-plain", onclick: () => navigator.clipboard?.writeText(token).then(() => toast(t("account.token.copied")), select) ?? select() }, icon("copy"), " ", t("run.copy"));
  return [h("p", {}, t("account.token.once")), h("div", { class: "buttons-of one-line" }, field, copy)];
}
