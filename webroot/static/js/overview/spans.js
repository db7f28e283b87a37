/** The last 24 hours by verdict, and the fires of the next hour, as charts; loaded once everything else is drawn. */
import { plot, stackedBars, timeAxis, valueAxis } from "../charts/svg.js";
import { chart } from "../charts/table.js";
import { get } from "../api.js";
import { now } from "../clock.js";
import { byId, h } from "../dom.js";
import { duration } from "../durations.js";
import { on } from "../live/live.js";
import { note } from "../notices.js";
import { Refresher } from "../refresher.js";
import { listed, number, t, word } from "../text.js";
import { badge, toneOf, VERDICTS } from "../verdicts.js";
import { fullestOf, toneOfWait, waitWords } from "../waiting.js";
import { full, parts, zoneFor } from "../zones.js";

const HOUR = 3_600_000;
/** What has ended is counted each minute; what is to come changes as slowly. */
const EVERY_MS = 60_000;
const HEIGHT = 150;

/** From the lowest to the highest, by tone. @type {[string, import("../charts/svg.js").Tone][]} */
const PIECES = [["well", "ok"], ["none", "idle"], ["odd", "warn"], ["bad", "bad"]];
const verdictsOf = (/** @type {string} */ tone) => VERDICTS.filter((verdict) => toneOf(verdict) === tone);
const STACKED = PIECES.flatMap(([, tone]) => verdictsOf(tone));

/** @typedef {Record<string, number>} Counts */

export function startSpans() {
  const day = chart(byId("day"), { id: "overview-day", title: t("overview.day") });
  const next = chart(byId("next"), { id: "overview-next", title: t("overview.next"), extra: h("a", { href: "/timeline" }, t("title.timeline")) });
  const both = new Refresher((signal) => Promise.all([
    drawn("day", async () => day(dayOf((await get("/statistics", { query: { hours: 24 }, signal })).items)), signal),
    drawn("next", async () => next(hourOf(await get("/forecast", { query: { hours: 1, buckets: 60 }, signal }))), signal),
  ]).then(() => {}), EVERY_MS);
  on(["again", "ping", "jobs", "runs"], () => both.soon());
  return both.now();
}

/** @param {string} id @param {() => Promise<void>} draw @param {AbortSignal} signal */
async function drawn(id, draw, signal) {
  try {
    await draw();
    note(byId(`${id}-problem`), null);
  } catch (error) {
    if (signal.aborted) throw error;
    note(byId(`${id}-problem`), error.message, error.status === 403 ? "info" : "bad");
  }
}

/** @param {any[]} items newest first */
function dayOf(items) {
  const hours = [...items].reverse().map((one) => ({ from: Date.parse(one.hour), counts: Object.fromEntries(STACKED.map((verdict) => [verdict, one[verdict] ?? 0])) }));
  const sums = Object.fromEntries(STACKED.map((verdict) => [verdict, hours.reduce((sum, { counts }) => sum + counts[verdict], 0)]));
  const rows = hours.map(({ from, counts }) => ({
    from, to: from + HOUR, href: `/runs?${new URLSearchParams({ from: iso(from), to: iso(from + HOUR) })}`,
    label: `${clock(from)}–${clock(from + HOUR)}: ${said(counts) || t("overview.day.none")}`,
    values: Object.fromEntries(PIECES.map(([name, tone]) => [name, verdictsOf(tone).reduce((sum, verdict) => sum + counts[verdict], 0)])),
  }));
  return {
    draw: (/** @type {number} */ width) => bars(width, rows, PIECES, t("overview.day")),
    columns: [t("column.hour"), ...STACKED.map((verdict) => word("verdict", verdict))],
    rows: () => hours.map(({ from, counts }) => [full(from, zoneFor()), ...STACKED.map((verdict) => number(counts[verdict]))]),
    note: STACKED.filter((verdict) => sums[verdict]).map((verdict) => h("span", { class: "sum-of" }, badge(verdict, { href: `/runs?period=24h&status=${verdict}` }), " ", number(sums[verdict]))),
  };
}

/** @param {any} forecast */
function hourOf({ items, slots, bucketMs }) {
  const minutes = items.filter((/** @type {any} */ one) => one.time + bucketMs > now());
  const fires = minutes.reduce((/** @type {number} */ sum, /** @type {any} */ one) => sum + one.fires, 0);
  const fullest = /** @type {any} */ (fullestOf(minutes));
  const rows = minutes.map((/** @type {any} */ one) => ({
    from: one.time, to: one.time + bucketMs, values: { [toneOfWait(one.waitMs) ?? "plan"]: one.fires },
    label: [`${clock(one.time)}: ${t("timeline.fires", { n: Math.round(one.fires) })}, ${t("timeline.slots", { n: Math.ceil(one.slots) })}`, toneOfWait(one.waitMs) && waitWords(one.waitMs, slots)].filter(Boolean).join("\n"),
  }));
  return {
    draw: (/** @type {number} */ width) => (fires ? bars(width, rows, [["plan", "run"], ["warn", "warn"], ["bad", "bad"]], t("overview.next")) : null),
    columns: [t("column.when"), t("column.fires"), t("column.slots"), t("timeline.column.wait")],
    rows: () => minutes.filter((/** @type {any} */ one) => one.fires).map((/** @type {any} */ one) => [full(one.time, zoneFor()), number(one.fires, 1), number(one.slots, 1), toneOfWait(one.waitMs) ? duration(one.waitMs) : ""]),
    note: fires > 0 && [t("timeline.fires", { n: Math.round(fires) }), fullest && [", ", t(slots ? "overview.next.most" : "overview.next.nobody", { time: clock(fullest.time), some: Math.ceil(fullest.slots), all: slots, slots: t("timeline.slots", { n: Math.ceil(fullest.slots) }) }), toneOfWait(fullest.waitMs) && [t("sentence.between"), waitWords(fullest.waitMs, slots)]]].flat(3),
  };
}

/** @param {number} width @param {any[]} rows @param {[string, import("../charts/svg.js").Tone][]} keys @param {string} label */
function bars(width, rows, keys, label) {
  if (!rows.length) return null;
  const most = Math.max(...rows.map(({ values }) => Object.values(/** @type {Counts} */ (values)).reduce((sum, one) => sum + one, 0)), 1);
  const made = plot({ label, width, height: HEIGHT, x: [rows[0].from, rows[rows.length - 1].to], y: [0, most * 1.08], left: 40 });
  valueAxis(made, { count: 3, format: (value) => (Number.isInteger(value) ? number(value) : "") });
  timeAxis(made, zoneFor());
  stackedBars(made, rows, keys);
  return made.svg;
}

/** @param {Counts} counts */
const said = (counts) => listed(STACKED.filter((verdict) => counts[verdict]).map((verdict) => `${number(counts[verdict])} ${word("verdict", verdict)}`));
/** @param {number} ms */
const clock = (ms) => parts(ms, zoneFor()).time.slice(0, 5);
/** @param {number} ms */
const iso = (ms) => new Date(ms).toISOString();
