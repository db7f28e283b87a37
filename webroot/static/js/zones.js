/** Instants as the reader wants them: in UTC, in the browser's zone, or in the zone of the job. */
import { keep, kept } from "./kept.js";

/** @typedef {"utc" | "mine" | "job"} Mode */

const KEY = "etcron.times";
const MODES = /** @type {Mode[]} */ (["utc", "mine", "job"]);
export const MINE = Intl.DateTimeFormat().resolvedOptions().timeZone;
/** When a week of work begins. */
const MORNING_HOUR = 8;
/** @type {Map<string, Intl.DateTimeFormat>} */
const formats = new Map();
/** @type {Set<() => void>} */
const listeners = new Set();

/** @returns {Mode} */
export function mode() {
  const chosen = /** @type {Mode} */ (kept(KEY));
  return MODES.includes(chosen) ? chosen : "mine";
}

/** @param {Mode} chosen */
export function choose(chosen) {
  keep(KEY, chosen);
  listeners.forEach((listener) => listener());
}

/** Calls after each change of the mode, in other tabs too. @param {() => void} listener */
export const onChange = (listener) => listeners.add(listener);
window.addEventListener("storage", (event) => event.key === KEY && listeners.forEach((listener) => listener()));

/** The zone to show, for a job in `zone`. @param {string} [zone] */
export function zoneFor(zone) {
  const chosen = mode();
  return chosen === "utc" ? "UTC" : chosen === "job" && zone ? zone : MINE;
}

/**
 * @param {number} ms
 * @param {string} zone
 * @returns {{date: string, time: string, offset: string}} `2026-11-21`, `07:05:00`, `+01:00`
 */
export function parts(ms, zone) {
  /** @type {Record<string, string>} */
  const found = {};
  for (const { type, value } of format(zone).formatToParts(ms)) found[type] = value;
  const offset = found.timeZoneName.replace(/^(GMT|UTC)/, "") || "+00:00";
  return {
    date: `${found.year}-${found.month}-${found.day}`,
    time: `${found.hour}:${found.minute}:${found.second}`,
    offset,
  };
}

/** Date, time and offset in one. @param {number} ms @param {string} zone */
export function full(ms, zone) {
  const { date, time, offset } = parts(ms, zone);
  return zone === "UTC" ? `${date} ${time} UTC` : `${date} ${time} ${offset}`;
}

/** The next morning of a Monday, also of today, on the clock of who looks. @param {number} nowMs */
export function mondayMs(nowMs) {
  const monday = new Date(nowMs);
  monday.setDate(monday.getDate() + ((8 - monday.getDay()) % 7));
  if (monday.setHours(MORNING_HOUR, 0, 0, 0) <= nowMs) monday.setDate(monday.getDate() + 7);
  return monday.getTime();
}

/** @param {string} zone */
function format(zone) {
  let known = formats.get(zone);
  if (!known) {
    const fields = { year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit" };
    const options = { ...fields, hourCycle: "h23", timeZoneName: "longOffset" };
    known = make(zone, options) ?? /** @type {Intl.DateTimeFormat} */ (make("UTC", options));
    formats.set(zone, known);
  }
  return known;
}

/** A zone that this browser does not know is shown as UTC. @param {string} timeZone @param {object} options */
function make(timeZone, options) {
  try {
    return new Intl.DateTimeFormat("en-US", { ...options, timeZone });
  } catch {
    return null;
  }
}
