/** The inputs of the form: filling and reading them, and what was wrong with each. */
import { h } from "../dom.js";
import { t } from "../text.js";
import { $ } from "../vendor.js";
import { fillPairs, readPairs } from "./pairs.js";
import { DEFAULTS, FIELDS, same } from "./spec.js";

const GROUPS = {
  limits: ["overlap", "timeoutSeconds", "killGraceSeconds", "outputLimitBytes"],
  late: ["misfire.policy", "misfire.graceSeconds", "misfire.windowSeconds", "misfire.limit", "lostAfterSeconds"],
  env: ["env"],
  labels: ["labels"],
};

/** @param {string} name @returns {any} */
const input = (name) => document.querySelector(`[data-field="${name}"]`);
/** @param {string} name @returns {any} */
const pairs = (name) => document.querySelector(`[data-pairs="${name}"]`);

/** @param {Record<string, any>} fields */
export function fillInputs(fields) {
  for (const name of FIELDS) {
    if (pairs(name)) fillPairs(pairs(name), fields[name]);
    else if (input(name).type === "checkbox") input(name).checked = fields[name];
    else input(name).value = fields[name] ?? "";
  }
  for (const [group, names] of Object.entries(GROUPS)) {
    const changed = names.filter((name) => !same(fields[name], DEFAULTS[name]));
    const details = $(`[data-group=${group}]`);
    details.prop("open", changed.length > 0);
    details.find("[data-summary]").text(changed.length ? "" : t(`form.${group}.default`));
  }
}

/** What is in the form; a number that is none stays the text that it is, so that the manager says what is wrong. */
export function readInputs() {
  return Object.fromEntries(FIELDS.map((name) => [name, pairs(name) ? readPairs(pairs(name)) : valueOf(name, input(name))]));
}

/** @param {string} name @param {any} field */
function valueOf(name, field) {
  if (field.type === "checkbox") return field.checked;
  const text = field.tagName === "TEXTAREA" ? field.value : field.value.trim();
  if (name === "lostAfterSeconds") return text === "" ? null : numeric(text);
  return field.hasAttribute("data-number") ? (text === "" ? DEFAULTS[name] : numeric(text)) : text;
}

/** @param {string} text */
const numeric = (text) => (Number.isFinite(Number(text)) ? Number(text) : text);

/**
 * Each error at its field; the first one gets the focus if wanted.
 * @param {{field: string, message: string, remedy: string}[]} errors
 * @param {{focus?: boolean, only?: (field: string) => boolean}} [options] `only`: the fields to judge, the others stay
 * @returns {string[]} errors without a place in the form
 */
export function showErrors(errors, { focus = false, only = () => true } = {}) {
  for (const box of document.querySelectorAll("[data-errors]")) {
    const name = box.dataset.errors;
    if (!only(name)) continue;
    const own = errors.filter((error) => placeOf(error.field) === name);
    box.replaceChildren(...own.map((error) => h("div", { class: "invalid-feedback" }, `${error.message}; ${error.remedy}`)));
    input(name)?.classList.toggle("is-invalid", own.length > 0);
    input(name)?.setAttribute("aria-invalid", String(own.length > 0));
    if (own.length) box.closest("details")?.setAttribute("open", "");
  }
  if (focus) document.querySelector("[aria-invalid=true], .pairs-of:has(+ .errors > *) input")?.focus();
  return errors.filter((error) => !placeOf(error.field)).map((error) => `${error.field}: ${error.message}; ${error.remedy}`);
}

/** @param {string} field as the manager names it @returns {string | undefined} */
function placeOf(field) {
  if (field === "misfire") return "misfire.policy";
  return FIELDS.find((name) => field === name) ?? FIELDS.find((name) => field.startsWith(`${name}.`));
}
