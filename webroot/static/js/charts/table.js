/**
 * What stands around a chart: its heading, a button that shows the same as a table, and a tip that says what is under the
 * pointer or has the focus. The arrow keys go from mark to mark. It is drawn again when its room or the reader's zone change.
 */
import { fill, h, icon } from "../dom.js";
import { keep, kept } from "../kept.js";
import { t } from "../text.js";
import { onChange } from "../zones.js";

/**
 * @typedef {import("../dom.js").Child} Child
 * @typedef {{draw: (width: number) => Element | null, columns: string[], rows: () => (Child | Child[])[][], note?: Child | Child[]}} Shown
 *   `draw`: the chart, so wide; null: there is nothing to be drawn. `columns`: headings of the table, `rows` its cells
 */

/**
 * Makes the frame in an element that is on the page. What it gives draws what is to be shown, again and again.
 * @param {HTMLElement} host @param {{id: string, title: string, extra?: Child | Child[]}} options `id`: what the choice of the table is kept by
 * @returns {(shown: Shown) => void}
 */
export function chart(host, { id, title, extra = null }) {
  const key = `etcron.table.${id}`;
  const drawing = h("div", { class: "chart-of" }), tip = h("div", { class: "tip", hidden: true, "aria-hidden": "true" }), note = h("div", { class: "sub chart-note" });
  const toggle = h("button", { type: "button", class: "btn btn-quiet chart-twin", "aria-label": `${t("chart.table")}: ${title}`, onclick: () => {
    keep(key, kept(key) === "1" ? "" : "1");
    draw();
  } }, icon("table"), " ", h("span", {}, t("chart.table")));
  fill(host, h("div", { class: "section-head" }, h("h2", {}, title), extra, h("div", { class: "end" }, toggle)), note, drawing, tip);
  host.classList.add("chart-frame");
  /** @type {Shown | null} */
  let shown = null;
  let width = 0;

  function draw() {
    if (!shown) return;
    const asTable = kept(key) === "1";
    const at = marksIn(drawing).indexOf(/** @type {any} */ (document.activeElement));
    const says = t(asTable ? "chart.show" : "chart.table");
    toggle.setAttribute("aria-label", `${says}: ${title}`);
    fill(toggle, icon(asTable ? "bar-chart" : "table"), " ", h("span", {}, says));
    fill(note, shown.note);
    tip.hidden = true;
    fill(drawing, asTable ? tableOf(title, shown) : shown.draw(width) ?? h("p", { class: "empty" }, t("chart.none")));
    const marks = marksIn(drawing);
    const next = marks[Math.min(Math.max(at, 0), marks.length - 1)];
    next?.setAttribute("tabindex", "0");
    if (at >= 0) next?.focus({ preventScroll: true });
  }

  new ResizeObserver(() => {
    const now = drawing.clientWidth;
    if (now === width || !now) return;
    width = now;
    draw();
  }).observe(drawing);
  onChange(draw);
  drawing.addEventListener("keydown", (event) => step(drawing, event));
  // Beside a mark that the keys are at it stays, wherever the pointer rests: that moves as the page does.
  const atKeys = () => drawing.querySelector(".mark:focus-visible");
  for (const type of ["pointerover", "focusin"]) drawing.addEventListener(type, ({ target }) => tell(host, tip, /** @type {Element} */ (target).closest(".mark") ?? atKeys()));
  drawing.addEventListener("pointerleave", () => tell(host, tip, atKeys()));
  drawing.addEventListener("focusout", () => void (tip.hidden = true));
  return (what) => {
    shown = what;
    width = drawing.clientWidth;
    draw();
  };
}

/** @param {Element} drawing @returns {SVGElement[]} */
const marksIn = (drawing) => [...drawing.querySelectorAll(".mark")];

/** To the next mark or the one before, the first or the last. @param {Element} drawing @param {KeyboardEvent} event */
function step(drawing, event) {
  const marks = marksIn(drawing), at = marks.indexOf(/** @type {any} */ (document.activeElement));
  const last = marks.length - 1;
  const to = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: last }[event.key];
  if (at < 0 || to === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  event.stopPropagation();
  const next = marks[Math.min(Math.max(to, 0), last)];
  marks[at].setAttribute("tabindex", "-1");
  next.setAttribute("tabindex", "0");
  next.focus();
}

/** Beside the mark, within the frame. @param {HTMLElement} host @param {HTMLElement} tip @param {Element | null} mark */
function tell(host, tip, mark) {
  tip.hidden = !mark;
  if (!mark) return;
  fill(tip, (mark.getAttribute("aria-label") ?? "").split("\n").map((text) => h("div", {}, text)));
  const frame = host.getBoundingClientRect(), box = mark.getBoundingClientRect();
  const left = Math.min(Math.max(box.left + box.width / 2 - frame.left - tip.offsetWidth / 2, 0), Math.max(frame.width - tip.offsetWidth, 0));
  const above = box.top - frame.top - tip.offsetHeight - 6;
  tip.style.left = `${left}px`;
  tip.style.top = `${above > 0 ? above : box.bottom - frame.top + 6}px`;
}

/** @param {string} title @param {Shown} shown */
function tableOf(title, { columns, rows }) {
  return h("div", { class: "scroll-x chart-table", role: "group", tabindex: 0, "aria-label": title },
    h("table", { class: "grid auto" }, h("caption", { class: "visually-hidden" }, title),
      h("thead", {}, h("tr", {}, columns.map((text) => h("th", { scope: "col" }, text)))),
      h("tbody", {}, rows().map((cells) => h("tr", {}, cells.map((cell) => h("td", {}, cell)))))));
}
