/** How full the minutes are: the slots that were used, those that fires to come want, and those that there are. */
import { band, line, mark, plot, rule, s, timeAxis, valueAxis } from "../charts/svg.js";
import { max } from "../charts/d3.js";
import { now } from "../clock.js";
import { h } from "../dom.js";
import { duration } from "../durations.js";
import { language, number, t } from "../text.js";
import { toneOfWait, waitWords } from "../waiting.js";
import { full, parts, zoneFor } from "../zones.js";
import { marginOf } from "./lanes.js";

/** Where the slots that there are would be further above what is wanted, they are not drawn. */
const MOST_AIR = 3;

/** @typedef {{time: number, slots: number, fires?: number, waitMs?: number | null}} Minute */
/** @typedef {{used: Minute[], usedMean: Minute[], usedFrom: number | null, usedMs: number, wanted: Minute[], wantedMs: number, slots: number}} Pressure */

/** @param {number} width @param {Pressure} pressure @param {{from: number, to: number}} span @param {(from: number, to: number) => void} onpick */
export function pressureOf(width, pressure, span, onpick) {
  const { used, usedMean, usedFrom, usedMs, wanted, wantedMs, slots } = pressure;
  const busiest = Math.max(max([...used, ...usedMean, ...wanted], (/** @type {Minute} */ one) => one.slots) ?? 0, 1);
  const most = Math.max(busiest, slots <= busiest * MOST_AIR ? slots : 0);
  const chart = plot({ label: t("timeline.pressure"), width, height: width < 640 ? 110 : 128, x: [span.from, span.to], y: [0, most * 1.12], left: marginOf(width), top: 12, bottom: 22, right: width < 640 ? 8 : 12 });
  valueAxis(chart, { count: 3, format: (value) => (width < 640 || !Number.isInteger(value) ? "" : number(value)) });
  timeAxis(chart, zoneFor());
  if (usedFrom && usedFrom > span.from) {
    const to = Math.min(usedFrom, now()), label = t(usedMean.length ? "timeline.used.mean" : "timeline.used.cut", { time: full(to, zoneFor()) });
    chart.body.append(mark(s("rect", { ...(usedMean.length ? { class: "reach" } : { fill: "url(#fill-shut)" }), width: Math.max(chart.x(to), 0), height: chart.height }), { label }));
    line(chart, stepsOf(usedMean, 3_600_000, span.from, to), "ok", { steps: true, dashed: true });
  }
  const before = stepsOf(used, usedMs, Math.max(usedFrom ?? span.from, span.from), Math.min(now(), span.to));
  const after = stepsOf(wanted, wantedMs, Math.max(now(), span.from), span.to);
  band(chart, before.map(({ x, y }) => ({ x, low: 0, high: y })), "ok", { steps: true });
  line(chart, before, "ok", { steps: true });
  band(chart, after.map(({ x, y }) => ({ x, low: 0, high: y })), "run", { steps: true });
  line(chart, after, "run", { steps: true });
  if (slots > 0 && slots <= most * 1.12) rule(chart, { y: slots, text: t("timeline.slots", { n: slots }), tone: "warn" });
  if (now() > span.from && now() < span.to) rule(chart, { x: now(), text: "", tone: "run" });
  peaks(chart, wanted.filter(({ time }) => time + wantedMs > Math.max(now(), span.from) && time < span.to), { each: wantedMs, slots }, onpick);
  return chart.svg;
}

/** Without gaps: what is not told is nothing. @param {Minute[]} minutes @param {number} each @param {number} from @param {number} to */
function stepsOf(minutes, each, from, to) {
  if (from >= to) return [];
  /** @type {{x: number, y: number}[]} */
  const points = [{ x: from, y: 0 }];
  let end = from;
  for (const { time, slots } of minutes) {
    if (time + each <= from || time >= to) continue;
    const x = Math.max(time, from);
    if (x > end) points.push({ x: end, y: 0 });
    points.push({ x, y: slots });
    end = Math.min(time + each, to);
  }
  return [...points, { x: end, y: points.at(-1)?.y ?? 0 }, { x: end, y: 0 }, { x: to, y: 0 }];
}

/** The hours to come lead to their jobs. @param {any} chart @param {Minute[]} wanted @param {{each: number, slots: number}} of @param {(from: number, to: number) => void} onpick */
function peaks(chart, wanted, { each, slots: there }, onpick) {
  /** @type {Map<number, Minute[]>} */
  const hours = new Map();
  const wide = Math.max(3_600_000, each);
  for (const one of wanted) hours.set(Math.floor(one.time / wide) * wide, [...(hours.get(Math.floor(one.time / wide) * wide) ?? []), one]);
  for (const [from, minutes] of hours) {
    const fires = minutes.reduce((sum, one) => sum + (one.fires ?? 0), 0);
    if (!fires) continue;
    const left = Math.max(chart.x(from), 0), right = Math.min(chart.x(from + wide), chart.width);
    const slots = Math.max(...minutes.map((one) => one.slots)), wait = Math.max(...minutes.map((one) => one.waitMs ?? 0)), tone = toneOfWait(wait);
    const label = [hourLabel(`${whenOf(from)}–${parts(from + wide, zoneFor()).time.slice(0, 5)}`, fires, slots), tone && waitWords(wait, there)].filter(Boolean).join("\n");
    if (right <= left) continue;
    const late = minutes.filter((one) => toneOfWait(one.waitMs)).map((one) => s("rect", { class: `late tone-${toneOfWait(one.waitMs)}`, x: Math.max(chart.x(one.time), 0), y: -4, width: Math.max(chart.x(one.time + each) - Math.max(chart.x(one.time), 0), 2), height: 4 }));
    chart.body.append(mark([s("rect", { class: "reach", x: left, width: right - left, height: chart.height }), ...late], { label, onpick: () => onpick(from, from + wide) }));
  }
}

const days = new Intl.DateTimeFormat(language, { weekday: "short", timeZone: "UTC" });

/** Its day of the week with it. @param {string} date as 2026-11-25 */
const dayOf = (date) => `${days.format(new Date(`${date}T00:00:00Z`))} ${date.slice(5)}`;

/** The day and the time. @param {number} ms */
export function dayAndTime(ms) {
  const { date, time } = parts(ms, zoneFor());
  return `${dayOf(date)} ${time.slice(0, 5)}`;
}

/** The time, and of another day its date. @param {number} ms */
export function whenOf(ms) {
  const isToday = parts(ms, zoneFor()).date === parts(now(), zoneFor()).date;
  return isToday ? parts(ms, zoneFor()).time.slice(0, 5) : dayAndTime(ms);
}

/** "02:00: 187 fires, 32 slots". @param {string} when @param {number} fires @param {number} slots */
export function hourLabel(when, fires, slots) {
  return `${when}: ${t("timeline.fires", { n: Math.round(fires) })}, ${t("timeline.slots", { n: Math.ceil(slots) })}`;
}

/** What the marks above the minutes mean. @param {any[]} minutes */
export const lateLegend = (minutes) => h("span", { class: "legend" }, (/** @type {("warn" | "bad")[]} */ (["warn", "bad"])).filter((tone) => minutes.some(({ waitMs }) => toneOfWait(waitMs) === tone))
  .flatMap((tone) => [h("span", { class: `key tone-${tone}` }), t(`timeline.heat.${tone}`)]));

/** @param {Pressure} pressure */
export function pressureRows({ used, usedMean, wanted }) {
  return [...usedMean.map((one) => [full(one.time, zoneFor()), `Ø ${number(one.slots, 1)}`, "", "", ""]), ...used.map((one) => [full(one.time, zoneFor()), number(one.slots), "", "", ""]),
    ...wanted.filter((one) => one.fires || one.slots).map((one) => [full(one.time, zoneFor()), "", number(one.slots, 1), number(one.fires ?? 0, 1), toneOfWait(one.waitMs) ? duration(one.waitMs) : ""])];
}
