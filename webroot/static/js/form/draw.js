/** The fields of the form: their labels, inputs and hints, and where their errors appear, as the schema says. */
import { byId, fill, h, icon } from "../dom.js";
import { FIELDS, OF_TRIGGERS, SECTIONS, TRIGGERS } from "../schema.js";
import { t, word } from "../text.js";
import { addExpression, addPair, addRow } from "./rows.js";

/** @typedef {import("../schema.js").Field} Field */

/** What shares a row with its neighbours. */
const SMALL = ["text", "number", "select", "list"];

/** Each section into its place; those that have none are folded. */
export function drawForm() {
  for (const name of SECTIONS) {
    const own = [...FIELDS.values()].filter(({ section }) => section === name);
    if (name === "when") fill(byId("in-when"), when(own));
    else if (document.getElementById(`in-${name}`)) fill(byId(`in-${name}`), rows(own));
    else byId("folds").append(fold(name, own));
  }
}

/** The trigger that is chosen, with its fields; beside it what all of them have. @param {Field[]} fields */
function when(fields) {
  const [own, others] = [true, false].map((isOwn) => fields.filter(({ path }) => OF_TRIGGERS.includes(path) === isOwn));
  const isSmall = (/** @type {Field} */ { input }) => SMALL.includes(input);
  return [
    h("div", { class: "choices", id: "trigger", role: "radiogroup", "aria-labelledby": "s-when" }, TRIGGERS.map((value) => choice("trigger", value, t(`form.trigger.${value}`)))),
    h("div", { class: "row-of" }, h("div", { class: "wide" }, rows(own)), others.filter(isSmall).map((one) => draw(one))),
    h("div", { class: "preview", id: "preview", role: "status", "aria-live": "polite" }),
    ...rows(others.filter((one) => !isSmall(one))),
  ];
}

/** A folded section; beside its title stands what it holds. @param {string} name @param {Field[]} fields */
function fold(name, fields) {
  return h("details", { "data-group": name },
    h("summary", {}, h("span", { class: "fold-title" }, t(`form.${name}`)), " ", h("span", { class: "fold-holds", "data-summary": true })),
    h("div", { class: "fold-body" }, rows(fields), name === "retry" && h("p", { class: "muted", id: "retry-delays" })));
}

/** @param {Field[]} fields */
function rows(fields) {
  /** @type {Field[][]} */
  const rows = [];
  for (const field of fields) {
    const isBeside = SMALL.includes(field.input) && SMALL.includes(rows.at(-1)?.[0].input ?? "");
    if (isBeside) rows.at(-1)?.push(field);
    else rows.push([field]);
  }
  return rows.flatMap(([one, ...others]) => [
    others.length ? h("div", { class: "row-of" }, [one, ...others].map((each) => draw(each))) : draw(one, one.input === "number" ? "third" : SMALL.includes(one.input) && "half"),
    one.absent && h("p", { class: "muted", "data-absent": one.path, hidden: true }, one.absent),
  ]);
}

/** @param {Field} field @param {string | false} [size] */
function draw(field, size = false) {
  const { path, label, hint, input } = field;
  const parts = {
    title: h("label", { class: "form-label", for: `f-${path}` }, label),
    errors: h("div", { class: "errors", id: `e-${path}`, "data-errors": path }),
    hint: hint && h("div", { class: "form-text", id: `h-${path}` }, hint),
    own: { id: `f-${path}`, "data-field": path, "data-kind": input, "aria-describedby": `e-${path}${hint && ` h-${path}`}` },
  };
  return h("div", { class: `field ${size || (["pairs", "rows"].includes(input) ? "named-of" : "")}`.trim(), "data-box": path }, (DRAWN[input] ?? typed)(field, parts));
}

/** @typedef {import("../dom.js").Child} Child */
/** @typedef {{title: HTMLElement, errors: HTMLElement, hint: Child, own: Record<string, string>}} Parts `own`: of what has the value */

/** What is not one line of text. @type {Record<string, (field: Field, parts: Parts) => Child[]>} */
const DRAWN = {
  check: ({ label }, { own, errors, hint }) => [h("label", { class: "check" }, h("input", { type: "checkbox", ...own }), " ", label), errors, hint],
  select: ({ choices }, { title, own, errors, hint }) =>
    [title, h("select", { class: "form-control", ...own }, [...choices].map(([value, { label }]) => h("option", { value }, label))), errors, hint],
  radios: ({ path, label, choices }, { own, errors, hint }) => [h("fieldset", own, h("legend", { class: "form-label" }, label),
    [...choices].map(([value, one]) => h("label", { class: "option" }, h("input", { type: "radio", name: path, value }), " ",
      h("span", {}, one.label, " ", h("span", { class: "muted" }, one.means))))), errors, hint],
  pairs: (field, parts) => several(field, parts, addPair),
  rows: (field, parts) => several(field, parts, addRow),
  expressions: ({ path, hint }, { title, errors }) => {
    const box = h("div", { "data-field": path, "data-kind": "expressions" });
    return [title, box, errors, h("div", { class: "form-text" }, h("span", { id: `h-${path}` }, hint), " ",
      h("button", { type: "button", class: "example", "data-add": path, onclick: () => addExpression(box).focus() }, t("form.add.cronExpr")))];
  },
  calendar: ({ path, label }, { own, errors, hint }) => [
    h("div", { "data-field": path, "data-kind": "calendar" }, h("label", { class: "form-label", for: `f-${path}-mode` }, label),
      h("select", { class: "form-control half", id: `f-${path}-mode` }, ["none", "exclude", "include"].map((value) => h("option", { value }, t(`form.calendar.${value}`)))),
      h("div", { "data-calendar-days": true, hidden: true }, h("label", { class: "form-label", for: own.id }, t("form.calendar.days")),
        area({ id: own.id, "aria-describedby": own["aria-describedby"], rows: 4, class: "form-control mono half" }), hint)), errors],
  command: ({ path, hint }, { title, own, errors }) => [h("div", { "data-field": path, "data-kind": "command" },
    h("div", { class: "label-row" }, title, h("div", { class: "choices small", role: "radiogroup", "aria-label": t("form.given") },
      ["line", "list"].map((how) => choice("given", how, t(`form.given.${how}`))))),
    area({ id: own.id, "aria-describedby": own["aria-describedby"], rows: 3, class: "form-control mono" }), errors,
    h("div", { class: "form-text", id: `h-${path}` }, h("span", { "data-given": "line" }, hint), h("span", { "data-given": "list", hidden: true }, t("form.given.list.hint"))))],
};

/** Rows that are added one by one. @param {Field} field @param {Parts} parts @param {(box: HTMLElement) => void} add @returns {Child[]} */
function several({ path, label }, { own: { id: _, ...own }, errors, hint }, add) {
  const box = h("div", { class: "pairs-of", role: "group", "aria-labelledby": `l-${path}`, "data-pairs": path, ...own });
  return [h("h3", { id: `l-${path}` }, label), hint, box, errors,
    h("button", { type: "button", class: "btn btn-plain", "data-add": path, onclick: () => add(box) }, icon("plus-lg"), " ", word("form.add", path, t("form.add")))];
}

/** One line of text. @param {Field} field @param {Parts} parts @returns {Child[]} */
function typed({ path, input, values, unset }, { title, own, errors, hint }) {
  const isCode = input !== "number" && !values;
  return [title, h("input", { class: isCode ? "form-control mono" : "form-control", type: "text", inputmode: input === "number" && "decimal",
    list: values && `o-${path}`, placeholder: unset || null, spellcheck: "false", autocomplete: "off", ...own }),
  values && h("datalist", { id: `o-${path}` }, values.map((value) => h("option", { value }))), errors, hint];
}

/** @param {Record<string, any>} attributes */
const area = (attributes) => h("textarea", { spellcheck: "false", ...attributes });
/** One of a few, side by side. @param {string} name @param {string} value @param {string} text */
const choice = (name, value, text) => h("label", {}, h("input", { type: "radio", name, value }), h("span", {}, text));
