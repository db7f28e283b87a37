/** How a value of each kind is written into its field and read from there. */
import { h } from "../dom.js";
import { DEFAULTS, FIELDS } from "../schema.js";
import { fillCommand, readCommand } from "./command.js";
import { fromEntries, toEntries } from "./lists.js";
import { fillExpressions, fillPairs, fillRows, readExpressions, readPairs, readRows } from "./rows.js";

/** @typedef {{write: (field: any, value: any) => void, read: (field: any) => any}} Kind */

/** An empty field is as if nobody had said anything. @param {any} field */
const typed = (field) => field.value.trim() || null;
/** A number that is none stays the text that it is, so that the manager says what is wrong. @param {string} text */
const numeric = (text) => (Number.isFinite(Number(text)) ? Number(text) : text);
/** @type {Kind["write"]} */
const writeText = (field, value) => void (field.value = value ?? "");
/** @param {any} field */
const byDefault = (field) => DEFAULTS[field.dataset.field];

/** @type {Record<string, Kind>} */
export const KINDS = {
  text: { write: writeText, read: (field) => typed(field) ?? byDefault(field) },
  number: { write: writeText, read: (field) => (typed(field) === null ? byDefault(field) : numeric(typed(field))) },
  check: { write: (field, value) => void (field.checked = value), read: (field) => field.checked },
  select: { write: select, read: (field) => field.value },
  radios: { write: pick, read: (field) => field.querySelector(":checked")?.value ?? byDefault(field) },
  list: { write: (field, value) => void (field.value = toEntries([value ?? []].flat())), read: readList },
  pairs: { write: fillPairs, read: readPairs },
  rows: { write: fillRows, read: readRows },
  expressions: { write: fillExpressions, read: readExpressions },
  calendar: { write: fillCalendar, read: readCalendar },
  command: { write: fillCommand, read: readCommand },
};

/** A word of a later version is one more choice. @type {Kind["write"]} */
function select(field, value) {
  if (![...field.options].some((option) => option.value === value)) field.append(h("option", { value }, value));
  field.value = value;
}

/** @type {Kind["write"]} */
function pick(field, value) {
  const radios = [...field.querySelectorAll("input")];
  if (!radios.some((radio) => radio.value === value)) {
    const radio = h("input", { type: "radio", name: field.dataset.field, value });
    radios.push(radio);
    field.append(h("label", { class: "option" }, radio, " ", h("span", {}, value)));
  }
  radios.forEach((radio) => void (radio.checked = radio.value === value));
}

/** @param {any} field */
function readList(field) {
  const entries = fromEntries(field.value);
  return FIELDS.get(field.dataset.field)?.of === "string" ? entries : entries.map(numeric);
}

/** @type {Kind["write"]} */
function fillCalendar(field, value) {
  const mode = ["exclude", "include"].find((one) => value?.[one]) ?? "none";
  field.querySelector("select").value = mode;
  field.querySelector("textarea").value = toEntries(value?.[mode] ?? [], "\n");
}

/** @param {any} field */
function readCalendar(field) {
  const mode = field.querySelector("select").value;
  return mode === "none" ? null : { [mode]: fromEntries(field.querySelector("textarea").value) };
}
