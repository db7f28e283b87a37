/** The hours of the week to come: how full each is, and where fires start late for want of a slot. */
import { mark, s } from "../charts/svg.js";
import { h } from "../dom.js";
import { duration } from "../durations.js";
import { language, number, t } from "../text.js";
import { toneOfWait, waitWords } from "../waiting.js";
import { parts, zoneFor } from "../zones.js";
import { heatScale, LEVELS } from "./levels.js";
import { dayAndTime, hourLabel } from "./pressure.js";

/** @typedef {import("./levels.js").Hour} Hour */

const ROW_PX = 20;
const DAY = 86_400_000;

/**
 * @param {number} width @param {{items: Hour[], slots: number}} week @param {(from: number, to: number) => void} onpick
 * @returns {Element | null}
 */
export function heatOf(width, { items, slots }, onpick) {
  const left = width < 480 ? 34 : 44, cell = (width - left) / 24;
  const scale = heatScale(items);
  /** @type {any[]} beside the marks, whose names say them in full */
  const counted = [];
  const cells = items.map((hour) => {
    const { date, time } = parts(hour.time, zoneFor());
    const day = new Date(`${date}T00:00:00Z`).getUTCDay(), x = left + Number(time.slice(0, 2)) * cell, y = ((day + 6) % 7) * ROW_PX;
    const level = scale.level(hour), tone = toneOfWait(hour.waitMs);
    const shape = [s("rect", { class: `heat heat-${level}`, x: x + 0.5, y: y + 0.5, width: Math.max(cell - 1, 1), height: ROW_PX - 1, rx: 2 })];
    if (tone) shape.push(cornerOf(tone, x + cell - 1, y + 1));
    if (hour.fires >= 1 && cell > 24) counted.push(s("text", { class: `heat-text heat-text-${level}`, x: x + cell / 2, y: y + 14, "text-anchor": "middle" }, short(Math.ceil(hour[scale.by]))));
    const label = [hourLabel(dayAndTime(hour.time), hour.fires, hour.slots), tone && waitWords(hour.waitMs, slots)].filter(Boolean).join("\n");
    return hour.fires ? mark(shape, { label, onpick: () => onpick(hour.time, hour.time + 3_600_000) }) : s("g", {}, shape);
  });
  const names = new Intl.DateTimeFormat(language, { weekday: "short", timeZone: "UTC" });
  const days = [0, 1, 2, 3, 4, 5, 6].map((day) => s("text", { x: 0, y: day * ROW_PX + 14 }, names.format(4 * DAY + day * DAY)));
  const every = cell < 14 ? 6 : cell < 24 ? 3 : 2;
  const hours = Array.from({ length: 24 }, (_, hour) => hour).filter((hour) => hour % every === 0)
    .map((hour) => s("text", { x: left + hour * cell + 1, y: 7 * ROW_PX + 14 }, `${String(hour).padStart(2, "0")}`));
  return s("svg", { class: "chart heat-map", width, height: 7 * ROW_PX + 18, viewBox: `0 0 ${width} ${7 * ROW_PX + 18}`, role: "group", "aria-label": t("timeline.heat") },
    s("g", { "aria-hidden": "true" }, days, hours), cells, s("g", { "aria-hidden": "true" }, counted));
}

/** Of late fires a large one, of fires that wait a little a small one. @param {"warn" | "bad"} tone @param {number} x its right end @param {number} y */
function cornerOf(tone, x, y) {
  const size = tone === "bad" ? 8 : 5;
  return s("path", { class: `over tone-${tone}`, d: `M${x - size} ${y}h${size}v${size}z` });
}

/** What the colours mean. @param {{items: Hour[]}} week */
export function heatLegend({ items }) {
  const { by, least, most } = heatScale(items);
  if (most < 0) return null;
  const key = (/** @type {number} */ level) => s("svg", { width: 14, height: 12, "aria-hidden": "true" }, s("rect", { class: `heat heat-${level}`, width: 14, height: 12, rx: 2 }));
  const tones = (/** @type {("warn" | "bad")[]} */ (["warn", "bad"])).filter((tone) => items.some(({ waitMs }) => toneOfWait(waitMs) === tone));
  return h("span", { class: "legend chart" }, t(`timeline.heat.${by}`), key(1), number(Math.ceil(least)), key(3), key(LEVELS), number(Math.ceil(most)),
    tones.flatMap((tone) => [s("svg", { width: 12, height: 12, "aria-hidden": "true" }, cornerOf(tone, 11, 1)), t(`timeline.heat.${tone}`)]));
}

/** @param {number} fires */
const short = (fires) => (fires < 1000 ? String(Math.round(fires)) : `${number(fires / 1000, fires < 10_000 ? 1 : 0)}k`);

/** @param {{items: Hour[]}} week */
export const heatRows = ({ items }) => items.filter((one) => one.fires).map((one) => {
  const { date, time, offset } = parts(one.time, zoneFor());
  return [`${date} ${time.slice(0, 5)} ${zoneFor() === "UTC" ? "UTC" : offset}`, number(one.fires), number(one.slots), toneOfWait(one.waitMs) ? duration(one.waitMs) : ""];
});
