/**
 * Charts as SVG: a frame with its scales and axes, and the marks in it. Colours are classes, so that they follow the theme
 * and the printer; each tone has a pattern too. A mark has a name, which is what a reader of the screen hears and what the
 * tip says; one that leads somewhere is a link.
 */
import { area, curveLinear, curveStepAfter, line as path, scaleLinear, stack } from "./d3.js";
import { number, t } from "../text.js";
import { parts } from "../zones.js";

const NS = "http://www.w3.org/2000/svg";
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const STEPS = [1, 2, 5, 10, 15, 30].map((n) => n * MINUTE).concat([1, 2, 3, 6, 12].map((n) => n * HOUR), [1, 2, 7, 14, 28].map((n) => n * DAY));

/** @type {[number, "ms" | "s" | "min" | "h" | "d"][]} */
const UNITS = [[1, "ms"], [1000, "s"], [MINUTE, "min"], [HOUR, "h"], [DAY, "d"]];
/** How many of a unit are between two marks; of others a round number is. @type {Record<string, number[]>} */
const SPANS = { s: [0.5, 1, 2, 5, 10, 15, 30], min: [0.5, 1, 2, 5, 10, 15, 30], h: [0.5, 1, 2, 3, 6, 12] };

/** @typedef {"ok" | "bad" | "warn" | "run" | "idle" | "plan" | "shut"} Tone */
/** @typedef {{svg: SVGElement, body: SVGElement, x: any, y: any, width: number, height: number, left: number, top: number}} Plot */

/**
 * As `h`, for SVG.
 * @param {string} tag
 * @param {Record<string, unknown>} [attributes]
 * @param {...any} children
 * @returns {any}
 */
export function s(tag, attributes = {}, ...children) {
  const element = document.createElementNS(NS, tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), /** @type {any} */ (value));
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((one) => one !== null && one !== undefined && one !== false));
  return element;
}

/**
 * An empty chart. `x`: from and to, in ms since the epoch or any numbers; `y` the same, the lower end first.
 * @param {{label: string, width: number, height: number, x: [number, number], y: [number, number], left?: number, right?: number, top?: number, bottom?: number}} options
 * @returns {Plot}
 */
export function plot({ label, width, height, x, y, left = 44, right = 8, top = 8, bottom = 22 }) {
  const inner = { width: Math.max(width - left - right, 1), height: Math.max(height - top - bottom, 1) };
  const body = s("g", { transform: `translate(${left} ${top})` });
  const svg = s("svg", { class: "chart", width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": label }, body);
  return {
    svg, body, left, top, ...inner,
    x: scaleLinear().domain(x).range([0, inner.width]),
    y: scaleLinear().domain(y).range([inner.height, 0]),
  };
}

/** The times at which a scale of time is marked, whole ones in the zone. @param {number} from @param {number} to @param {number} most @param {string} zone */
function timesOf(from, to, most, zone) {
  const step = STEPS.find((one) => (to - from) / one <= Math.max(most, 1)) ?? Math.ceil((to - from) / most / DAY) * DAY;
  const times = [];
  for (let local = Math.ceil((from + offsetOf(from, zone)) / step) * step; ; local += step) {
    const ms = local - offsetOf(local - offsetOf(from, zone), zone);
    if (ms > to) return times;
    if (ms >= from) times.push({ ms, text: textOf(ms, step, zone), strong: step < DAY && parts(ms, zone).time === "00:00:00" });
  }
}

/** @param {number} ms @param {string} zone */
function offsetOf(ms, zone) {
  const [, sign, hours, minutes] = /([+-])(\d+):(\d+)/.exec(parts(ms, zone).offset) ?? ["", "+", "0", "0"];
  return (sign === "-" ? -1 : 1) * (Number(hours) * HOUR + Number(minutes) * MINUTE);
}

/** The date at midnight, else the time. @param {number} ms @param {number} step @param {string} zone */
function textOf(ms, step, zone) {
  const { date, time } = parts(ms, zone);
  return step >= DAY || time === "00:00:00" ? date.slice(5) : time.slice(0, 5);
}

/** The axis of time below, with a line through the chart at each mark. @param {Plot} plot @param {string} zone */
export function timeAxis({ body, x, width, height }, zone) {
  const [from, to] = x.domain();
  const marks = timesOf(from, to, width / 72, zone);
  body.append(s("g", { class: "axis", "aria-hidden": "true" },
    marks.map(({ ms, strong }) => s("line", { class: strong ? "tick strong" : "tick", x1: x(ms), x2: x(ms), y2: height })),
    marks.filter(({ ms }) => x(ms) <= width - 12).map(({ ms, text, strong }) => s("text", { class: strong ? "strong" : null, x: x(ms), y: height + 15, "text-anchor": x(ms) < 14 ? "start" : "middle" }, text))));
}

/** The axis at the left. @param {Plot} plot @param {{count?: number, format?: (value: number) => string, values?: number[]}} [options] `values`: what is marked, in place of round numbers */
export function valueAxis({ body, y, width }, { count = 3, format = number, values = y.ticks(count) } = {}) {
  body.append(s("g", { class: "axis", "aria-hidden": "true" }, values.map((/** @type {number} */ value) => [
    s("line", { class: "tick", x2: width, y1: y(value), y2: y(value) }),
    s("text", { x: -6, y: y(value) + 4, "text-anchor": "end" }, format(value)),
  ])));
}

/** The axis at the left where values are durations in ms: each mark is whole in one unit, and so short. @param {Plot} plot @param {number} [count] marks beside that of nothing, at most */
export function lengthAxis(plot, count = 4) {
  const most = plot.y.domain()[1];
  const [unit, name] = UNITS.findLast(([one]) => most >= (one === 1000 ? one : 1.5 * one)) ?? UNITS[0];
  const step = (SPANS[name] ?? []).map((n) => n * unit).find((one) => most / one <= count) ?? unit * Math.max(1, plot.y.copy().domain([0, most / unit]).ticks(count)[1]);
  const values = Array.from({ length: Math.floor(most / step) + 1 }, (_, at) => at * step);
  valueAxis(plot, { values, format: (ms) => (ms ? t(`duration.${name}`, { [name]: number(ms / unit, 1) }) : "0") });
}

/**
 * A shape with a name: a link where it leads somewhere, a button where something is done by it, else a picture. `Plots` in
 * table.js moves the focus among them.
 * @param {any} shape
 * @param {{label: string, href?: string, onpick?: () => void, data?: Record<string, string>}} options
 */
export function mark(shape, { label, href, onpick, data = {} }) {
  const said = { class: "mark", "aria-label": label, tabindex: -1, ...Object.fromEntries(Object.entries(data).map(([name, value]) => [`data-${name}`, value])) };
  if (href) return s("a", { ...said, href }, shape);
  if (!onpick) return s("g", { ...said, role: "img" }, shape);
  const byKey = (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    onpick();
  };
  return s("g", { ...said, role: "button", onclick: onpick, onkeydown: byKey }, shape);
}

/** @param {Tone} tone the fill of a shape: its colour with its pattern */
export function fillOf(tone) {
  patterns();
  return { class: `tone-${tone}`, fill: tone === "ok" ? "currentColor" : `url(#fill-${tone})` };
}

/**
 * Bars that stand on each other.
 * @param {Plot} plot
 * @param {{from: number, to: number, label: string, href?: string, onpick?: () => void, values: Record<string, number>}[]} rows
 * @param {[string, Tone][]} keys from the lowest to the highest
 */
export function stackedBars({ body, x, y, height }, rows, keys) {
  const series = stack().keys(keys.map(([key]) => key)).value((row, key) => row.values[key] ?? 0)(rows);
  body.append(s("g", { class: "bars" }, rows.map((row, at) => {
    const left = x(row.from), width = Math.max(x(row.to) - left - 1, 1);
    const pieces = series.map((one, index) => ({ low: one[at][0], high: one[at][1], tone: keys[index][1] })).filter(({ low, high }) => high > low)
      .map(({ low, high, tone }) => s("rect", { ...fillOf(tone), x: left, width, y: y(high), height: Math.max(y(low) - y(high), 1) }));
    return mark([s("rect", { class: "reach", x: left, width, height }), ...pieces], row);
  })));
}

/** @param {Plot} plot @param {{x: number, y: number, tone: Tone, label: string, href?: string}[]} points */
export function dots({ body, x, y }, points) {
  body.append(s("g", { class: "dots" }, points.map((one) => {
    const [cx, cy] = [x(one.x), y(one.y)];
    const shape = one.tone === "ok" || one.tone === "run" ? s("circle", { class: `tone-${one.tone}`, fill: "currentColor", cx, cy, r: 3.5 })
      : one.tone === "bad" ? s("path", { class: "tone-bad", fill: "currentColor", d: `M${cx - 4.5} ${cy + 4}h9l-4.5 -8z` })
        : s("rect", { class: `tone-${one.tone}`, fill: "currentColor", x: cx - 3, y: cy - 3, width: 6, height: 6 });
    return mark([s("circle", { class: "reach", cx, cy, r: 8 }), shape], one);
  })));
}

/** What lies between two values. @param {Plot} plot @param {{x: number, low: number, high: number}[]} points @param {Tone} tone @param {{steps?: boolean}} [options] */
export function band({ body, x, y }, points, tone, { steps = false } = {}) {
  const shape = area().curve(steps ? curveStepAfter : curveLinear).x((one) => x(one.x)).y0((one) => y(one.low)).y1((one) => y(one.high));
  body.append(s("path", { class: `band tone-${tone}`, d: shape(points) ?? "", "aria-hidden": "true" }));
}

/** @param {Plot} plot @param {{x: number, y: number}[]} points @param {Tone} tone @param {{steps?: boolean, dashed?: boolean}} [options] */
export function line({ body, x, y }, points, tone, { steps = false, dashed = false } = {}) {
  const shape = path().curve(steps ? curveStepAfter : curveLinear).x((one) => x(one.x)).y((one) => y(one.y));
  body.append(s("path", { class: `line tone-${tone}${dashed ? " dashed" : ""}`, d: shape(points) ?? "", "aria-hidden": "true" }));
}

/** A line across, at a value or at a time, with a word. @param {Plot} plot @param {{x?: number, y?: number, text: string, tone: Tone, above?: boolean}} options */
export function rule({ body, x, y, width, height }, { x: at, y: value, text, tone, above = false }) {
  const [x1, x2, y1, y2] = at === undefined ? [0, width, y(value), y(value)] : [x(at), x(at), 0, height];
  const end = x2 > width - 60;
  body.append(s("g", { class: `rule tone-${tone}`, "aria-hidden": "true" }, s("line", { x1, x2, y1, y2 }),
    s("text", { x: end ? x2 - 4 : x1 + 4, y: above ? -4 : Math.max(at === undefined ? y1 - 4 : 10, 10), "text-anchor": end ? "end" : "start" }, text)));
}

/** The patterns of the tones, once a page. */
function patterns() {
  if (document.getElementById("fill-bad")) return;
  const tile = (/** @type {Tone} */ tone, /** @type {any[]} */ ...inner) => s("pattern", { id: `fill-${tone}`, class: `tone-${tone}`, width: 6, height: 6, patternUnits: "userSpaceOnUse" },
    s("rect", { class: "ground", width: 6, height: 6 }), ...inner);
  const slash = (/** @type {string} */ d) => s("path", { class: "hatch", d });
  document.body.append(s("svg", { class: "patterns", width: 0, height: 0, "aria-hidden": "true", focusable: "false" }, s("defs", {},
    tile("bad", slash("M-1 1l2 -2M0 6l6 -6M5 7l2 -2")), tile("warn", s("circle", { class: "hatch", cx: 3, cy: 3, r: 1 })),
    tile("run", slash("M0 3h6")), tile("idle", slash("M3 0v6")), tile("plan"), tile("shut", slash("M-1 5l2 2M0 0l6 6M5 -1l2 2")))));
}
