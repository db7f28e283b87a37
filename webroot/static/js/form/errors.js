/** What is wrong, each at its field. */
import { h } from "../dom.js";
import { faultOf } from "../said.js";
import { t } from "../text.js";
import { rowPaths } from "./rows.js";

/** @typedef {{field: string, message: string, remedy: string}} FieldError */
/** @typedef {{path: string, field: string, box: HTMLElement, inputs: HTMLElement[]}} Place `path`: of the errors that go there */

/**
 * Each error at its field; the first one is unfolded, scrolled to and gets the focus if wanted.
 * @param {FieldError[]} errors
 * @param {{focus?: boolean, only?: (field: string) => boolean}} [options] `only`: the fields to judge, the others stay
 * @returns {string[]} errors without a place in the form
 */
export function showErrors(errors, { focus = false, only = () => true } = {}) {
  const places = allPlaces();
  const placed = errors.map((error) => ({ error, place: placeOf(error.field, places) }));
  const judged = places.filter(({ field }) => only(field));
  [...judged, ...rowBoxes().filter((box) => only(box.dataset.field)).map(everyRow)].forEach(clear);
  for (const place of judged) mark(place, placed.filter((one) => one.place === place).map(({ error }) => error));
  if (focus) goToFirst(places);
  return placed.filter(({ place }) => !place).map(({ error }) => `${error.field}${t("colon")}${faultOf(error)}`);
}

/** How many fields have a mark. */
export const countMarked = () => new Set([...document.querySelectorAll(".job-form .errors")].filter((box) => box.firstChild).map((box) => box.closest("[data-field]") ?? box)).size;

/** @param {{boxes?: HTMLElement[], box?: HTMLElement, inputs: HTMLElement[]}} place */
function clear({ box, boxes = [box], inputs }) {
  boxes.forEach((one) => one.replaceChildren());
  inputs.forEach((input) => {
    input.classList.remove("is-invalid");
    input.removeAttribute("aria-invalid");
  });
}

/** @param {Place} place @param {FieldError[]} errors */
function mark({ path, box, inputs }, errors) {
  if (!errors.length) return;
  box.replaceChildren(...errors.map((error) => h("div", { class: "invalid-feedback" }, `${within(error.field, path)}${faultOf(error)}`)));
  box.closest("details")?.setAttribute("open", "");
  inputs.forEach((input) => {
    input.classList.add("is-invalid");
    input.setAttribute("aria-invalid", "true");
  });
}

/** Also those that have no place any more, being blank. @param {HTMLElement} box */
const everyRow = (box) => ({ boxes: [...box.querySelectorAll(".errors")], inputs: [...box.querySelectorAll(".form-control")] });

/** @returns {Place[]} in the order of the page */
function allPlaces() {
  const fields = [...document.querySelectorAll("[data-errors]")].map((box) => {
    const path = box.dataset.errors;
    const input = document.getElementById(`f-${path}`);
    return { path, field: path, box, inputs: input && input.tagName !== "FIELDSET" ? [input] : [] };
  });
  const rows = rowBoxes().flatMap((box) => rowPaths(box).map(([path, row]) =>
    ({ path, field: box.dataset.field, box: row.querySelector(".errors"), inputs: [...row.querySelectorAll(".form-control")] })));
  return [...fields, ...rows];
}

/** @returns {any[]} */
const rowBoxes = () => [...document.querySelectorAll("[data-kind=expressions], [data-kind=pairs], [data-kind=rows]")];

/** The nearest place of a path such as `workers.gpu[1]`; of an object as a whole its first field. @param {string} path @param {Place[]} places */
function placeOf(path, places) {
  const outer = places.filter((place) => path === place.path || path.startsWith(`${place.path}.`) || path.startsWith(`${place.path}[`));
  return outer.sort((one, other) => other.path.length - one.path.length)[0] ?? places.find((place) => place.path.startsWith(`${path}.`));
}

/** Where within the field. @param {string} path of the error @param {string} place */
function within(path, place) {
  const rest = path.startsWith(place) ? path.slice(place.length) : "";
  const entry = /\[(\d+)\]$/.exec(rest);
  return entry ? t("form.entry", { at: Number(entry[1]) + 1 }) : rest && `${rest.replace(/^\./, "")}${t("colon")}`;
}

/** @param {Place[]} places */
function goToFirst(places) {
  const first = [...document.querySelectorAll(".job-form .errors")].find((box) => box.firstChild);
  const { inputs = [] } = places.find(({ box }) => box === first) ?? {};
  const target = inputs[0] ?? first?.closest(".field")?.querySelector("input:checked, input, textarea, select, button");
  target?.focus({ preventScroll: true });
  first?.scrollIntoView({ block: "nearest" });
}
