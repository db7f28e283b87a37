/** What there may be several of, a row each: names with values (`env`, `labels`, `workers`), objects (`notify`), expressions. */
import { h, icon } from "../dom.js";
import { FIELDS } from "../schema.js";
import { t, word } from "../text.js";
import { fromEntries, toEntries } from "./lists.js";

const PLAIN_NAME = /^[A-Za-z0-9_-]{1,80}$/;

/** A value as it was, for as long as nobody changes its text: a text field has no carriage return. @type {WeakMap<Element, {text: string, value: any}>} */
const unchanged = new WeakMap();

/** How many rows there have been: each has an id for its errors. */
let made = 0;

/** @param {HTMLElement} box @param {Record<string, any>} values */
export function fillPairs(box, values) {
  box.replaceChildren(...Object.entries(values).map(([name, value]) => pair(box.dataset.field, name, value)));
}

/** @param {HTMLElement} box */
export function addPair(box) {
  const added = pair(box.dataset.field, "", "");
  box.append(added);
  added.querySelector("input").focus();
}

/** Rows without name and value are nothing. @param {HTMLElement} box @returns {Record<string, any>} */
export function readPairs(box) {
  return Object.fromEntries(rowsOf(box).map((row) => [nameOf(row), valueOf(box, row)]));
}

/** @param {HTMLElement} box @returns {string[]} names that more than one row has: an object has each once */
export function namesGivenTwice(box) {
  const names = rowsOf(box).map(nameOf);
  return [...new Set(names.filter((name, at) => names.indexOf(name) !== at))];
}

/** The rows by the paths that errors name them with. @param {HTMLElement} box @returns {[string, HTMLElement][]} */
export function rowPaths(box) {
  if (box.dataset.kind === "rows") return rowsOf(box).map((row, at) => [`${box.dataset.field}[${at}]`, row]);
  if (box.dataset.kind !== "expressions") return rowsOf(box).map((row) => [`${box.dataset.field}${pathOf(nameOf(row))}`, row]);
  const written = rowsOf(box);
  return written.length < 2 ? [] : written.map((row, at) => [`${box.dataset.field}[${at}]`, row]);
}

/** @param {HTMLElement} box @returns {any[]} the rows in which there is something */
function rowsOf(box) {
  return [...box.children].filter((row) => [...row.querySelectorAll(".form-control")].some((one) => /** @type {any} */ (one).value.trim()));
}

/** @param {HTMLElement} row */
const nameOf = (row) => row.querySelector("input").value.trim();

/** @param {HTMLElement} box @param {HTMLElement} row */
function valueOf(box, row) {
  const field = row.querySelector("textarea");
  const was = unchanged.get(field);
  if (was?.text === field.value) return was.value;
  if (!hasLists(box.dataset.field)) return field.value;
  const values = fromEntries(field.value);
  return values.length > 1 ? values : (values[0] ?? "");
}

/** As the manager writes it. @param {string} name */
function pathOf(name) {
  const short = JSON.stringify([...name].slice(0, 80).join(""));
  const ascii = short.replace(/[\u007f-\uffff]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
  return PLAIN_NAME.test(name) ? `.${name}` : `[${ascii}]`;
}

/** Whether a name may have several values. @param {string} path */
const hasLists = (path) => FIELDS.get(path)?.hasList;

/** @param {string} path @param {string} name @param {any} value */
function pair(path, name, value) {
  const label = word("form.name", path, t("form.name"));
  const values = t(hasLists(path) ? "form.values" : "form.value");
  const field = /** @type {any} */ (h("textarea", { class: "form-control mono", rows: 1, "aria-label": values, placeholder: values, spellcheck: "false" }));
  field.value = hasLists(path) && value !== "" ? toEntries([value].flat()) : value;
  unchanged.set(field, { text: field.value, value });
  return row("pair", h("input", { class: "form-control mono", type: "text", value: name, "aria-label": label, placeholder: label, spellcheck: "false", autocomplete: "off" }), field);
}

/** @param {HTMLElement} box @param {Record<string, any>[]} values */
export function fillRows(box, values) {
  box.replaceChildren(...values.map((value) => objectRow(box.dataset.field, value)));
}

/** @param {HTMLElement} box */
export function addRow(box) {
  const added = objectRow(box.dataset.field, {});
  box.append(added);
  added.querySelector("input").focus();
}

/** What is blank is left out, as are rows in which all is. @param {HTMLElement} box @returns {Record<string, any>[]} */
export function readRows(box) {
  const { members } = FIELDS.get(box.dataset.field);
  return rowsOf(box).map((row) => {
    const texts = [...row.querySelectorAll("input")].map((input) => input.value.trim());
    return Object.fromEntries(members.map(({ path, input }, at) => [nameIn(path), valueIn(input, texts[at])]).filter(([, value]) => value !== null));
  });
}

/** @param {string} path of a member */
const nameIn = (path) => path.slice(path.lastIndexOf(".") + 1);

/** @param {string} input @param {string} text */
function valueIn(input, text) {
  if (!text) return null;
  if (input === "list") return fromEntries(text);
  return input === "number" && Number.isFinite(Number(text)) ? Number(text) : text;
}

/** @param {string} path @param {Record<string, any>} value */
function objectRow(path, value) {
  return row("object-row", ...FIELDS.get(path).members.map(({ path: inner, label, unset, default: otherwise }) => {
    const own = value[nameIn(inner)] ?? "";
    return h("input", { class: "form-control", type: "text", value: Array.isArray(own) ? toEntries(own) : own, "aria-label": label, title: label,
      placeholder: unset || `${label}${otherwise ? `: ${otherwise}` : ""}`, spellcheck: "false", autocomplete: "off", "data-member": nameIn(inner) });
  }));
}

/** @param {HTMLElement} box @param {string | string[] | null} value */
export function fillExpressions(box, value) {
  box.replaceChildren();
  for (const text of [value ?? ""].flat()) addExpression(box, text);
}

/** @param {HTMLElement} box @param {string} [text] @returns {HTMLElement} its input */
export function addExpression(box, text = "") {
  const input = h("input", { class: "form-control mono", type: "text", value: text, spellcheck: "false", autocomplete: "off", "aria-describedby": `e-${box.dataset.field} h-${box.dataset.field}` });
  box.append(row("expression-row", input));
  number(box);
  return input;
}

/** The first has the label of the field, the others are counted. @param {HTMLElement} box */
function number(box) {
  box.querySelectorAll("input").forEach((input, at) => {
    input.id = `f-${box.dataset.field}${at === 0 ? "" : `-${at + 1}`}`;
    if (at === 0) input.removeAttribute("aria-label");
    else input.setAttribute("aria-label", t("form.expression", { n: at + 1 }));
  });
}

/** @param {HTMLElement} box @returns {string | string[]} */
export function readExpressions(box) {
  const texts = [...box.querySelectorAll("input")].map((input) => input.value.trim()).filter(Boolean);
  return texts.length > 1 ? texts : (texts[0] ?? "");
}

/** @param {string} kind @param {...any} inputs */
function row(kind, ...inputs) {
  const remove = h("button", { type: "button", class: "btn btn-quiet btn-icon", title: t("form.remove"), onclick: () => removeRow(element) }, icon("x-lg"));
  const errors = h("div", { class: "errors", id: `e-row-${(made += 1)}` });
  for (const input of inputs) input.setAttribute("aria-describedby", [input.getAttribute("aria-describedby"), errors.id].filter(Boolean).join(" "));
  const name = () => remove.setAttribute("aria-label", t("form.remove.what", { what: inputs[0].value }));
  const element = h("div", { class: kind, oninput: name }, inputs, remove, errors);
  name();
  return element;
}

/** The focus goes to the next one, or to where one adds one. @param {HTMLElement} element */
function removeRow(element) {
  const box = element.parentElement;
  const next = element.nextElementSibling ?? element.previousElementSibling;
  element.remove();
  if (box.dataset.kind === "expressions") number(box);
  box.dispatchEvent(new Event("input", { bubbles: true }));
  (next?.querySelector("input") ?? document.querySelector(`[data-add="${box.dataset.field}"]`))?.focus();
}
