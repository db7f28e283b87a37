/** Durations in the fewest words that still tell them apart. */
import { number, t } from "./text.js";

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const YEAR = 365.2425 * DAY;

/** To the millisecond below a second, to a tenth below ten. @param {number | null | undefined} ms */
export function duration(ms) {
  if (ms === null || ms === undefined) return "";
  if (ms < 0) return `−${duration(-ms)}`;
  if (ms < SECOND) return t("duration.ms", { ms: Math.round(ms) });
  if (ms < 10 * SECOND) return t("duration.s", { s: number(ms / SECOND, 1) });
  return whole(ms);
}

/** To the second below an hour, then in the two largest units. @param {number} ms at least 0 */
export function whole(ms) {
  const seconds = Math.floor(ms / SECOND);
  if (ms < MINUTE) return t("duration.s", { s: String(seconds) });
  if (ms < HOUR) return t("duration.min.s", { min: String(Math.floor(ms / MINUTE)), s: two(seconds % 60) });
  const minutes = Math.floor(ms / MINUTE);
  if (ms < DAY) return t("duration.h.min", { h: String(Math.floor(ms / HOUR)), min: two(minutes % 60) });
  const hours = Math.floor(ms / HOUR);
  if (ms < 100 * DAY) return t("duration.d.h", { d: String(Math.floor(ms / DAY)), h: String(hours % 24) });
  return days(ms);
}

/** In one unit, for `... ago`. @param {number} ms at least 0 */
export function rough(ms) {
  if (ms < MINUTE) return t("duration.s", { s: String(Math.floor(ms / SECOND)) });
  if (ms < HOUR) return t("duration.min", { min: String(Math.floor(ms / MINUTE)) });
  if (ms < 2 * DAY) return t("duration.h", { h: String(Math.floor(ms / HOUR)) });
  return days(ms);
}

/** Nobody counts thousands of days. @param {number} ms */
function days(ms) {
  return ms < 2 * YEAR ? t("duration.d", { d: Math.floor(ms / DAY) }) : t("duration.y", { y: number(ms / YEAR, 1) });
}

/** @param {number} value */
const two = (value) => String(value).padStart(2, "0");
