/** The inputs of the form: filling and reading them, and what is shown for the trigger that is chosen. */
import { FIELDS, PATHS, ruledOut } from "../schema.js";
import { t } from "../text.js";
import { KINDS } from "./kinds.js";
import { namesGivenTwice } from "./rows.js";
import { same, triggerOf, withTrigger } from "./spec.js";

/** What was filled in, and how it is read back: what nobody has touched stays as it was, whatever a field can hold. */
let filled = /** @type {Record<string, any>} */ ({});
let asRead = /** @type {Record<string, any>} */ ({});

/** @param {string} name @returns {any} */
const input = (name) => document.querySelector(`[data-field="${name}"]`);
/** @param {string} name */
const kindOf = (name) => KINDS[input(name).dataset.kind];

/** @param {Record<string, any>} fields */
export function fillInputs(fields) {
  for (const name of PATHS) kindOf(name).write(input(name), fields[name]);
  document.querySelector(`[name=trigger][value=${triggerOf(fields)}]`).checked = true;
  filled = fields;
  asRead = read();
  showForTrigger();
}

/** What is in the form, without what the trigger rules out. */
export function readInputs() {
  const now = read();
  const fields = Object.fromEntries(PATHS.map((name) => [name, same(now[name], asRead[name]) ? filled[name] : now[name]]));
  return withTrigger(fields, chosenTrigger());
}

/** @returns {string} */
const chosenTrigger = () => document.querySelector("[name=trigger]:checked").value;

/** What goes with the trigger, and no more; the days of a calendar only where there is one. */
export function showForTrigger() {
  const out = ruledOut(chosenTrigger());
  document.querySelectorAll("[data-box]").forEach((one) => void (one.hidden = out.includes(one.dataset.box)));
  document.querySelectorAll("[data-absent]").forEach((one) => void (one.hidden = !out.includes(one.dataset.absent)));
  document.querySelectorAll("[data-kind=calendar]").forEach((one) => void (one.querySelector("[data-calendar-days]").hidden = kindOf(one.dataset.field).read(one) === null));
}

/** What the manager cannot see: of two rows with one name it would get one. */
export function ownErrors() {
  return PATHS.filter((name) => FIELDS.get(name)?.input === "pairs").flatMap((field) => namesGivenTwice(input(field)).map((name) =>
    ({ field, message: t("form.twice", { name }), remedy: t("form.twice.remedy") })));
}

const read = () => Object.fromEntries(PATHS.map((name) => [name, kindOf(name).read(input(name))]));
