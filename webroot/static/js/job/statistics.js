/** How the job's days went: runs by verdict, and how long they took; asked for when it is opened, and as long as it is. */
import { get } from "../api.js";
import { byId, h } from "../dom.js";
import { duration } from "../durations.js";
import { grid } from "../grid.js";
import { on } from "../live/live.js";
import { note } from "../notices.js";
import { redraw } from "../redraw.js";
import { Refresher } from "../refresher.js";
import { number, t } from "../text.js";
import { VERDICTS } from "../verdicts.js";

const DAYS = 30;
/** What has ended is counted each minute. */
const COUNTED_MS = 70_000;

/** @param {string} name */
export function showStatisticsWhenOpened(name) {
  const details = byId("statistics-of");
  const isOpen = () => details.hasAttribute("open");
  const days = new Refresher((signal) => load(name, signal, () => days.later()), COUNTED_MS, isOpen);
  details.addEventListener("toggle", () => isOpen() && void days.now());
  on(["runs"], ({ jobs }) => isOpen() && name in jobs && days.changed());
  on(["again", "health"], () => isOpen() && days.changed());
}

/** @param {string} name @param {AbortSignal} signal @param {() => unknown} later */
async function load(name, signal, later) {
  const box = byId("statistics");
  try {
    const { items } = await get("/statistics", { query: { job: name, days: DAYS }, signal });
    const days = items.filter((/** @type {any} */ day) => VERDICTS.some((verdict) => day[verdict]));
    redraw(box, h("p", { class: "muted" }, t(days.length ? "statistics.about" : "statistics.none", { n: DAYS })), days.length > 0 && table(days));
  } catch (error) {
    if (signal.aborted) throw error;
    note(box, error.message, error.status === 404 ? "info" : "bad");
    if (error.mayPass) later();
  }
}

/** @param {any[]} days */
function table(days) {
  const title = t("statistics.title");
  const columns = [
    { key: "day", draw: (/** @type {any} */ one) => one.day },
    { key: "runs", draw: (/** @type {any} */ one) => number(one.runs), className: "num" },
    ...VERDICTS.map((key) => ({ key, draw: (/** @type {any} */ one) => number(one[key] ?? 0), className: "num" })),
    { key: "average", draw: (/** @type {any} */ one) => duration(one.averageDurationMs), className: "num" },
    { key: "longest", draw: (/** @type {any} */ one) => duration(one.maxDurationMs), className: "num" },
  ];
  return h("div", { class: "scroll-x", role: "group", tabindex: 0, "aria-label": title }, grid(title, columns, days, "auto", ({ day }) => day));
}
