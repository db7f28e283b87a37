/** The last day of a worker: how many slots were used, what its runs came to, and what happened to it. */
import { s } from "../charts/svg.js";
import { byId, h } from "../dom.js";
import { grid } from "../grid.js";
import { encoded } from "../links.js";
import { redraw } from "../redraw.js";
import { stamp } from "../stamp.js";
import { number, t, word } from "../text.js";
import { badge, lookOf, VERDICTS } from "../verdicts.js";
import { slotsOf } from "./slots.js";

const EVENTS = [
  { key: "when", draw: (/** @type {any} */ event) => [stamp(event.ms), h("div", { class: "sub" }, stamp(event.ms, { as: "ago" }))] },
  { key: "what", draw: (/** @type {any} */ event) => [word("happened", event.kind), lasted(event)], className: "wraps" },
  { key: "who", draw: (/** @type {any} */ event) => event.by, className: "wraps" },
  { key: "reason", draw: (/** @type {any} */ event) => event.reason, className: "wraps" },
];

/** @param {string} name @param {(shown: import("../charts/table.js").Shown) => void} drawSlots @param {any} day as GET /workers/{name}/history says @param {number | undefined} all how many slots it has */
export function showDay(name, drawSlots, { fromMs, toMs, verdicts, slots, events }, all) {
  drawSlots({ ...slotsOf(slots, toMs, all), note: [t("worker.day.since"), " ", stamp(fromMs)] });
  const total = Object.values(verdicts).reduce((sum, count) => sum + count, 0);
  redraw(byId("verdicts"), total ? shares(name, verdicts, total) : h("p", { class: "muted" }, t("worker.verdicts.none")));
  redraw(byId("events"), events === null ? h("p", { class: "muted" }, t("worker.events.withheld"))
    : events.length ? grid(t("worker.events"), EVENTS, events, "auto stack") : h("p", { class: "muted" }, t("worker.events.none")));
}

/** @param {any} event */
function lasted({ lasts, endMs }) {
  if (!lasts) return null;
  return h("div", { class: endMs ? "sub" : "sub tone-warn" }, endMs ? [t("worker.event.until"), " ", stamp(endMs)] : t("worker.event.lasts"));
}

/** A bar of all together, then each with its number and the way to its runs. @param {string} name @param {Record<string, number>} counts @param {number} total */
function shares(name, counts, total) {
  const there = VERDICTS.filter((verdict) => counts[verdict]);
  let x = 0;
  const parts = there.map((verdict) => s("rect", { class: lookOf(verdict), x: (x += counts[verdict]) - counts[verdict], width: counts[verdict], y: 0, height: 10 }));
  return [
    s("svg", { class: "shares", viewBox: `0 0 ${total} 10`, preserveAspectRatio: "none", "aria-hidden": "true" }, parts),
    h("ul", { class: "shares-of" }, there.map((verdict) => h("li", {}, badge(verdict, { href: `/runs?worker=${encoded(name)}&status=${verdict}` }),
      h("span", {}, number(counts[verdict])), h("span", { class: "muted" }, t("worker.share", { percent: number((100 * counts[verdict]) / total, 1) }))))),
  ];
}
