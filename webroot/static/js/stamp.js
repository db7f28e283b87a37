/** `<time>` elements that keep themselves right: countdowns and ages each second, all of them when the zone changes. */
import { everySecond, now } from "./clock.js";
import { h } from "./dom.js";
import { rough, whole } from "./durations.js";
import { t } from "./text.js";
import { full, MINE, onChange, parts, zoneFor } from "./zones.js";

/** A date can be no further away; what others wrote into the stores may say so. */
const LAST_MS = 8.64e15;
const DAY_MS = 86_400_000;

/** @typedef {"moment" | "short" | "long" | "clock" | "ago" | "until" | "lasting"} Style */

/** Those that change each second: where changes are read aloud these are not. */
const TICKING = ["ago", "until", "lasting"];

/** @type {Record<Style, (ms: number, zone: string) => string>} */
const styles = {
  moment: (ms, zone) => (isToday(ms, zone) ? parts(ms, zone).time : `${parts(ms, zone).date} ${parts(ms, zone).time}`),
  short: (ms, zone) => (isToday(ms, zone) || (ms > now() && ms < now() + DAY_MS) ? parts(ms, zone).time.replace(/(:\d\d):00$/, "$1") : inShort(parts(ms, zone), parts(now(), zone))),
  long: full,
  clock: (ms, zone) => parts(ms, zone).time,
  ago: (ms) => (now() - ms < 1000 ? t("time.now") : t("time.ago", { time: rough(now() - ms) })),
  until: (ms) => (ms - now() < 1000 ? t("time.due") : t("time.in", { time: whole(ms - now()) })),
  lasting: (ms) => (ms > now() ? t("verdict.claimed") : whole(now() - ms)),
};

/**
 * @param {number | null | undefined} ms since the epoch; nothing is shown without
 * @param {{as?: Style, zone?: string}} [options] `zone`: the job's
 * @returns {HTMLElement | null}
 */
export function stamp(ms, { as = "moment", zone = "" } = {}) {
  if (ms === null || ms === undefined || !(Math.abs(ms) <= LAST_MS)) return null;
  const element = h("time", { datetime: new Date(ms).toISOString(), "data-style": as, "data-zone": zone, "aria-live": TICKING.includes(as) ? "off" : null });
  refresh(element);
  return element;
}

/** @param {HTMLElement} element */
function refresh(element) {
  const ms = Date.parse(element.getAttribute("datetime") ?? "");
  const style = /** @type {Style} */ (element.dataset.style);
  const zone = zoneFor(element.dataset.zone);
  const text = styles[style](ms, zone);
  if (element.textContent !== text) element.textContent = text;
  if (!element.title || element.dataset.shown !== zone) {
    element.dataset.shown = zone;
    element.title = everyZone(ms, element.dataset.zone ?? "");
  }
}

/** @param {number} ms @param {string} zone */
function everyZone(ms, zone) {
  const zones = [...new Set(["UTC", MINE, zone].filter(Boolean))];
  return zones.map((one) => (one === "UTC" ? full(ms, one) : `${full(ms, one)} ${one}`)).join("\n");
}

/** @param {number} ms @param {string} zone */
const isToday = (ms, zone) => parts(ms, zone).date === parts(now(), zone).date;

/** Of what is further away than the time alone could tell: the day and the minute, or of another year the day. @param {{date: string, time: string}} at @param {{date: string}} today */
const inShort = ({ date, time }, today) => (date.slice(0, 4) === today.date.slice(0, 4) ? `${date.slice(5)} ${time.slice(0, 5)}` : date);

/** @param {string} selector */
const refreshAll = (selector) => document.querySelectorAll(selector).forEach((one) => refresh(/** @type {HTMLElement} */ (one)));

everySecond(() => refreshAll(TICKING.map((style) => `time[data-style=${style}]`).join()));
onChange(() => refreshAll("time[data-style]"));
