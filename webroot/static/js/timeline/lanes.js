/** The lanes: past runs as bars by verdict, what runs with its usual end, and the fires to come; drawn over one span of time. */
import { fillOf, mark, plot, rule, s, timeAxis } from "../charts/svg.js";
import { now } from "../clock.js";
import { h } from "../dom.js";
import { duration } from "../durations.js";
import { encoded, jobUrl, runUrl } from "../links.js";
import { t, word } from "../text.js";
import { NEVER_RAN, toneOf } from "../verdicts.js";
import { full, parts, zoneFor } from "../zones.js";

/** @typedef {any} Lane as GET /timeline says */
/** @typedef {import("../charts/svg.js").Tone} Tone */

const LANE_PX = 26;
const NARROW_LANE_PX = 40;
const BAR_PX = 14;
/** More ticks than these are one mark. */
const TICKS = 60;
const LONE_LETTER_PX = 6.6;

const SHUT = ["paused", "drained", "draining", "gone", "stopped", "not accepting", "broken"];

/** Where time is drawn, within the chart. @param {number} width */
export const marginOf = (width) => (width < 640 ? 8 : Math.min(Math.round(width * 0.17), 230));

/**
 * @param {number} width @param {{items: Lane[], by: string, bucketMs: number}} answer @param {{from: number, to: number}} span
 * @returns {Element}
 */
export function lanesOf(width, answer, span) {
  const isNarrow = width < 640, step = isNarrow ? NARROW_LANE_PX : LANE_PX;
  const chart = plot({ label: t("title.timeline"), width, height: answer.items.length * step + 40, x: [span.from, span.to], y: [0, 1], left: marginOf(width), top: 16, bottom: 24, right: isNarrow ? 8 : 12 });
  timeAxis(chart, zoneFor());
  answer.items.forEach((lane, at) => {
    const row = s("g", { class: "lane", transform: `translate(0 ${at * step})` });
    chart.body.append(row);
    draw(row, lane, { chart, step, isNarrow, by: answer.by });
  });
  if (now() > span.from && now() < span.to) rule(chart, { x: now(), text: t("timeline.now"), tone: "run", above: true });
  return chart.svg;
}

/** @param {any} row @param {Lane} lane @param {{chart: import("../charts/svg.js").Plot, step: number, isNarrow: boolean, by: string}} place */
function draw(row, lane, { chart, step, isNarrow, by }) {
  const { x, width } = chart, top = step - BAR_PX - 6, [from, to] = x.domain();
  const clamp = (/** @type {number} */ ms) => Math.min(Math.max(x(ms), 0), width);
  const area = (/** @type {number} */ begin, /** @type {number} */ end, /** @type {Tone} */ tone, /** @type {string} */ label, height = BAR_PX) => {
    const left = clamp(begin), right = clamp(end);
    if (right - left >= 1) row.append(mark(s("rect", { ...fillOf(tone), x: left, width: right - left, y: top + (BAR_PX - height) / 2, height, rx: 2 }), { label }));
  };
  row.append(s("line", { class: "tick", x1: isNarrow ? 0 : -chart.left, x2: width, y1: step, y2: step }), nameOf(lane, { by, isNarrow, room: chart.left - 14, y: isNarrow ? 13 : step / 2 + 4 }));
  if (lane.wholeFrom) area(from, lane.wholeFrom, "shut", `${lane.name}\n${t("timeline.cut", { time: shown(lane.wholeFrom) })}`, 6);
  if (SHUT.includes(lane.state)) {
    const since = Math.max(lane.sinceTime ?? now(), from);
    area(since, to, "shut", `${lane.name}\n${word("verdict", lane.state)}${lane.sinceTime ? ` ${t("timeline.since", { time: shown(lane.sinceTime) })}` : ""}`);
  }
  for (const run of lane.runs.toSorted((/** @type {any} */ one, /** @type {any} */ other) => one.from - other.from)) {
    if (run.to < from || run.from > to) continue;
    const left = clamp(run.from), right = Math.max(clamp(run.to), left + 3), tone = /** @type {Tone} */ (toneOf(run.status));
    const isLow = NEVER_RAN.includes(run.status);
    const shapes = [s("rect", { ...fillOf(tone), x: left, width: right - left, y: isLow ? top + 8 : top, height: isLow ? 6 : BAR_PX, rx: 1.5 })];
    if (run.expected) shapes.push(s("rect", { class: "expected", x: right, width: Math.max(clamp(run.expected) - right, 0), y: top + 0.5, height: BAR_PX - 1 }));
    row.append(mark(shapes, { label: labelOf(lane, run), href: run.id ? runUrl(run.id) : runsUrl(lane, run, by) }));
  }
  fires(row, lane, { x, width, top, to, area });
}

/** @param {any} row @param {Lane} lane @param {any} place */
function fires(row, lane, { x, width, top, to, area }) {
  const coming = lane.fires.filter((/** @type {any} */ one) => x(one.time) >= 0 && x(one.time) <= width);
  const total = coming.reduce((/** @type {number} */ sum, /** @type {any} */ one) => sum + one.count, 0);
  const lasts = (/** @type {number} */ time) => Math.min(Math.max(x(time + (lane.usualMs ?? 0)) - x(time), 2), width - x(time));
  if (coming.length > TICKS) {
    const path = coming.map((/** @type {any} */ one) => `M${x(one.time).toFixed(1)} ${top + 2}v${BAR_PX - 4}`).join("");
    const reach = s("rect", { class: "reach", x: x(coming[0].time), width: Math.max(x(coming.at(-1).time) - x(coming[0].time), 4), y: top, height: BAR_PX });
    row.append(mark([reach, s("path", { class: "ticks", d: path })], { label: `${lane.name}\n${t("timeline.fires", { n: total })}`, href: lane.jobs === 1 ? jobUrl(lane.name) : undefined }));
  } else {
    for (const one of coming) {
      const at = x(one.time);
      const shape = [s("rect", { class: "reach", x: at - 3, width: Math.max(lasts(one.time), 6), y: top, height: BAR_PX }),
        s("rect", { ...fillOf("plan"), x: at, width: lasts(one.time), y: top + 2, height: BAR_PX - 4 }), s("path", { class: "ticks", d: `M${at.toFixed(1)} ${top}v${BAR_PX}` })];
      const words = one.count > 1 ? t("timeline.fires", { n: one.count }) : t("timeline.fire");
      const usual = lane.usualMs ? `\n${t("timeline.usual", { time: duration(lane.usualMs) })}` : "";
      row.append(mark(shape, { label: `${lane.name}\n${shown(one.time)}: ${words}${usual}`, href: lane.jobs === 1 ? jobUrl(lane.name) : undefined }));
    }
  }
  if (lane.wholeTo) area(lane.wholeTo, to, "plan", `${lane.name}\n${t("timeline.dense")}`, BAR_PX - 4);
}

/** @param {Lane} lane @param {{by: string, isNarrow: boolean, room: number, y: number}} place */
function nameOf(lane, { by, isNarrow, room, y }) {
  const text = by === "label" ? `${lane.name} (${lane.jobs})` : lane.name;
  const most = isNarrow ? 44 : Math.max(Math.floor(room / LONE_LETTER_PX), 4);
  const drawn = s("text", { class: "lane-name", x: isNarrow ? 0 : -room - 8, y }, text.length > most ? `${text.slice(0, most - 1)}…` : text);
  const href = { job: jobUrl(lane.name), worker: `/workers/${encoded(lane.name)}` }[by];
  return href ? s("a", { href, "data-row-link": true }, s("title", {}, text), drawn) : s("g", {}, s("title", {}, text), drawn);
}

/** @param {Lane} lane @param {any} run @param {string} by */
function runsUrl(lane, run, by) {
  const search = new URLSearchParams({ from: new Date(run.from).toISOString(), to: new Date(run.to + 1000).toISOString() });
  if (by !== "label") search.set(by, lane.name);
  return `/runs?${search}`;
}

/** @param {Lane} lane @param {any} run */
function labelOf(lane, run) {
  const verdicts = run.counts ? Object.entries(run.counts).map(([status, count]) => `${count} ${word("verdict", status)}`).join(", ") : word("verdict", run.status);
  const job = run.id?.slice(0, run.id.lastIndexOf("@")) ?? lane.name;
  const who = job === lane.name ? job : `${lane.name}: ${job}`;
  const long = run.to > run.from ? `, ${duration(run.to - run.from)}` : "";
  const expected = run.expected ? `\n${t("timeline.expected", { time: shown(run.expected) })}` : "";
  return `${who}\n${shown(run.from)}: ${verdicts}${run.id ? long : ""}${expected}`;
}

/** @param {number} ms */
function shown(ms) {
  const zone = zoneFor(), { date, time } = parts(ms, zone);
  return date === parts(now(), zone).date ? time : `${date.slice(5)} ${time}`;
}

/** The same as a table: of each lane what ran, by verdict, and what is to come. @param {{items: Lane[]}} answer */
export function rowsOf({ items }) {
  return items.map((lane) => {
    /** @type {Map<string, number>} */
    const counts = new Map();
    for (const run of lane.runs) for (const [status, count] of Object.entries(run.counts ?? { [run.status]: 1 })) counts.set(status, (counts.get(status) ?? 0) + Number(count));
    const coming = lane.fires.reduce((/** @type {number} */ sum, /** @type {any} */ one) => sum + one.count, 0);
    return [lane.name, word("verdict", lane.state), [...counts].map(([status, count]) => `${count} ${word("verdict", status)}`).join(", "),
      `${coming}${lane.wholeTo ? "+" : ""}`, lane.fires[0] ? h("span", {}, full(lane.fires[0].time, zoneFor())) : "", lane.usualMs ? duration(lane.usualMs) : ""];
  });
}

/** Paused jobs have no lanes until somebody asks for them. @param {number} hidden @param {string} paused as the address says */
export function pausedOf(hidden, paused) {
  const isShown = paused === "shown";
  return (hidden > 0 || isShown) && h("button", { type: "button", class: "btn btn-quiet", id: "paused", "data-paused": isShown ? "" : "shown" }, t(isShown ? "timeline.paused.hide" : "timeline.paused.show", { n: hidden }));
}
