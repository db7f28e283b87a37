/** Names with values (`env`, `labels`), a row each. */
import { h, icon } from "../dom.js";
import { t } from "../text.js";

/** @param {HTMLElement} box @param {Record<string, string>} values */
export function fillPairs(box, values) {
  box.replaceChildren(...Object.entries(values).map(([name, value]) => row(box.dataset.pairs, name, value)));
}

/** @param {HTMLElement} box */
export function addPair(box) {
  const added = row(box.dataset.pairs, "", "");
  box.append(added);
  added.querySelector("input").focus();
}

/** Rows without name and value are nothing. @param {HTMLElement} box @returns {Record<string, string>} */
export function readPairs(box) {
  const pairs = [...box.children].map((one) => [...one.querySelectorAll("input")].map((input) => input.value));
  return Object.fromEntries(pairs.filter(([name, value]) => name.trim() || value).map(([name, value]) => [name.trim(), value]));
}

/** @param {string} group @param {string} name @param {string} value */
function row(group, name, value) {
  const element = h("div", { class: "pair" },
    h("input", { class: "form-control mono", type: "text", value: name, "aria-label": t(`form.name.${group}`), placeholder: t(`form.name.${group}`), spellcheck: "false" }),
    h("input", { class: "form-control mono", type: "text", value, "aria-label": t("form.value"), placeholder: t("form.value"), spellcheck: "false" }),
    h("button", { type: "button", class: "btn btn-quiet btn-icon", "aria-label": `${t("form.remove")} ${name}`, title: t("form.remove"), onclick: () => {
      element.parentElement.dispatchEvent(new Event("input", { bubbles: true }));
      element.remove();
    } }, icon("x-lg")));
  return element;
}
