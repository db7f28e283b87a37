/**
 * How long the runs took: a dot each, what is usual as a band, the timeout as a line, a mark where a version began; below,
 * how late they started. Drawing across the chart chooses a period.
 */
import { get, jobPath } from "../../api.js";
import { s, band, dots, lengthAxis, line, plot, rule, timeAxis } from "../../charts/svg.js";
import { chart } from "../../charts/table.js";
import { now } from "../../clock.js";
import { byId, h } from "../../dom.js";
import { duration } from "../../durations.js";
import { runUrl } from "../../links.js";
import { on } from "../../live/live.js";
import { Refresher } from "../../refresher.js";
import { labelOf } from "../../schema.js";
import { stamp } from "../../stamp.js";
import { listed, t, word } from "../../text.js";
import { badge } from "../../verdicts.js";
import { full, zoneFor } from "../../zones.js";

const DAY_MS = 86_400_000;
/** @type {Record<string, number>} */
const PERIODS = { newest: 0, day: DAY_MS, week: 7 * DAY_MS, month: 30 * DAY_MS };
const EVERY_MS = 10_000;
/** A run that is drawn across less than this was a click. */
const LEAST_PX = 6;
/** So much longer, or shorter, is said of a version. */
const DIFFERS = 1.5;
const DIFFERS_MS = 500;
/** @type {Record<string, "ok" | "bad" | "warn">} */
const TONES = { success: "ok", killed: "warn" };

export class Durations {
  /** @param {string} name of the job @param {() => string | undefined} zoneOf its zone @param {() => boolean} isOpen */
  constructor(name, zoneOf, isOpen) {
    this.path = `${jobPath(name)}/durations`;
    this.zoneOf = zoneOf;
    this.chosen = "newest";
    /** What was drawn across. @type {{from: number, to: number} | null} */
    this.brushed = null;
    /** Whether the user is drawing across it. */
    this.isBrushing = false;
    this.periods = h("div", { class: "segments", role: "group", "aria-label": t("durations.period") });
    this.show = chart(byId("durations"), { id: "durations", title: t("durations.title"), extra: this.periods });
    this.loading = new Refresher((signal) => this.load(signal), EVERY_MS, isOpen);
    on(["runs"], ({ jobs }) => name in jobs && isOpen() && this.loading.changed());
    on(["again", "health"], () => isOpen() && this.loading.soon());
  }

  /** It is looked at. */
  open() {
    return this.loading.now();
  }

  /** @param {string} chosen @param {{from: number, to: number} | null} [brushed] */
  choose(chosen, brushed = null) {
    Object.assign(this, { chosen, brushed });
    void this.loading.now();
  }

  drawPeriods() {
    const chosen = this.brushed ? "" : this.chosen;
    const button = (/** @type {string} */ name) => h("button", { type: "button", "aria-pressed": String(name === chosen), onclick: () => this.choose(name) }, t(`durations.${name}`));
    const focused = [...this.periods.children].indexOf(/** @type {Element} */ (document.activeElement));
    this.periods.replaceChildren(...Object.keys(PERIODS).map(button));
    if (focused >= 0) /** @type {HTMLElement} */ (this.periods.children[focused]).focus();
  }

  /** @param {AbortSignal} signal */
  async load(signal) {
    this.drawPeriods();
    const span = this.brushed ?? (PERIODS[this.chosen] ? { from: now() - PERIODS[this.chosen], to: undefined } : {});
    try {
      const found = await get(this.path, { query: /** @type {any} */ (span), signal });
      if (this.isBrushing) return this.loading.soon(); // drawn again, the chart would lose what is begun on it
      byId("durations").hidden = !found.runs && this.chosen === "newest"; // it has not run yet
      this.show({ draw: (width) => this.draw(found, width), columns: ["planned", "verdict", "duration", "lateness"].map((key) => t(`column.${key}`)), rows: () => this.rows(found), note: this.note(found) });
    } catch (error) {
      if (signal.aborted) throw error;
      if (this.isBrushing) return this.loading.soon();
      this.show({ draw: () => null, columns: [], rows: () => [], note: error.message });
      if (/** @type {any} */ (error).mayPass) this.loading.later();
    }
  }

  /** @param {any} found @param {number} width */
  draw({ points, bands, versions, timeoutMs }, width) {
    if (!points.length) return null;
    const zone = zoneFor(this.zoneOf());
    const [from, last] = [points[0].planTime, points.at(-1).planTime];
    const to = Math.max(last, from + 1000);
    const longest = Math.max(...points.map((/** @type {any} */ one) => one.durationMs), ...bands.map((/** @type {any} */ one) => one.p95Ms), 1);
    const withTimeout = timeoutMs && timeoutMs <= 1.5 * longest;
    const sizes = { width, left: 60, right: 12 };
    const above = plot({ label: t("durations.title"), ...sizes, height: 220, x: [from, to], y: [0, 1.08 * Math.max(longest, withTimeout ? timeoutMs : 0)] });
    lengthAxis(above);
    timeAxis(above, zone);
    bands.forEach((/** @type {any} */ one, /** @type {number} */ at) => {
      const ends = [one.from, bands[at + 1]?.from ?? one.to];
      band(above, ends.map((x) => ({ x, low: one.medianMs, high: one.p95Ms })), "run");
      line(above, ends.map((x) => ({ x, y: one.medianMs })), "run");
    });
    if (withTimeout) rule(above, { y: timeoutMs, text: t("durations.timeout"), tone: "bad" });
    for (const one of versions) rule(above, { x: one.planTime, text: `r${one.revision}`, tone: changeOf(one) === "slower" ? "warn" : "idle" });
    dots(above, points.map((/** @type {any} */ one) => ({ x: one.planTime, y: one.durationMs, tone: TONES[one.status] ?? "bad", label: saysOf(one, zone), href: runUrl(one.runId) })));
    const below = this.lateness(points, from, to, sizes);
    this.brush(above);
    return h("div", {}, above.svg, below ?? "");
  }

  /** @param {any[]} points @param {number} from @param {number} to @param {any} sizes */
  lateness(points, from, to, sizes) {
    const late = points.filter(({ lateMs }) => lateMs !== undefined).map(({ planTime, lateMs }) => ({ x: planTime, y: lateMs }));
    if (!late.length) return null;
    const most = Math.max(...late.map(({ y }) => y), 1000);
    const below = plot({ label: t("column.lateness"), ...sizes, height: 74, x: [from, to], y: [0, 1.15 * most], top: 16, bottom: 6 });
    lengthAxis(below, 2);
    below.body.append(s("text", { class: "axis", x: 0, y: -5 }, t("column.lateness")),
      s("g", { class: "stems tone-warn", "aria-hidden": "true" }, late.filter(({ y }) => y > 0).map(({ x, y }) => s("line", { x1: below.x(x), x2: below.x(x), y1: below.y(0), y2: below.y(y) }))));
    return below.svg;
  }

  /** A period is chosen by drawing across it. @param {any} plot */
  brush({ svg, body, x, width, height, left }) {
    let start = NaN;
    this.isBrushing = false;
    const shade = s("rect", { class: "brush", height, width: 0 });
    body.append(shade);
    const at = (/** @type {PointerEvent} */ event) => Math.min(Math.max(event.clientX - svg.getBoundingClientRect().left - left, 0), width);
    svg.addEventListener("pointerdown", (/** @type {PointerEvent} */ event) => {
      if (event.button || /** @type {Element} */ (event.target).closest(".mark")) return;
      start = at(event);
      this.isBrushing = true;
      svg.setPointerCapture(event.pointerId);
    });
    svg.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
      if (Number.isNaN(start)) return;
      shade.setAttribute("x", String(Math.min(start, at(event))));
      shade.setAttribute("width", String(Math.abs(at(event) - start)));
    });
    svg.addEventListener("pointerup", (/** @type {PointerEvent} */ event) => {
      const [low, high] = [start, at(event)].sort((one, other) => one - other);
      start = NaN;
      this.isBrushing = false;
      if (high - low >= LEAST_PX) this.choose("", { from: Math.floor(x.invert(low)), to: Math.ceil(x.invert(high)) + 1 });
      else shade.setAttribute("width", "0");
    });
    svg.addEventListener("pointercancel", () => {
      start = NaN;
      this.isBrushing = false;
      shade.setAttribute("width", "0");
    });
  }

  /** @param {any} found */
  rows({ points }) {
    const zone = this.zoneOf();
    return points.toReversed().map((/** @type {any} */ one) => [
      stamp(one.planTime, { zone }), badge(one.status, { href: runUrl(one.runId), of: full(one.planTime, zoneFor(zone)) }),
      [duration(one.durationMs), one.runs > 1 && h("span", { class: "sub" }, ` ${t("durations.of", { n: one.runs })}`)], one.lateMs === undefined ? "" : duration(one.lateMs),
    ]);
  }

  /** @param {any} found */
  note({ runs, medianMs, p95Ms, isCut, timeoutMs, versions }) {
    const zone = this.zoneOf();
    const period = this.brushed && [t("durations.between"), " ", stamp(this.brushed.from, { zone }), " … ", stamp(this.brushed.to, { zone }), ". "];
    const usual = medianMs !== undefined && t("durations.usual", { median: duration(medianMs), p95: duration(p95Ms) });
    const changes = versions.flatMap((/** @type {any} */ one) => (changeOf(one) ? [h("div", { class: changeOf(one) === "slower" ? "tone-warn" : "" },
      h("a", { href: "#versions" }, t(`durations.${changeOf(one)}`, { revision: String(one.revision) })), ` ${duration(one.beforeMs)} → ${duration(one.afterMs)} (${listed(one.changed.map(labelOf))})`)] : []));
    return [...(period || []), t(isCut ? "durations.newest.of" : "durations.runs", { n: runs }), " ", usual, " ", timeoutMs && t("durations.timeout.of", { time: duration(timeoutMs) }), ...changes];
  }
}

/** Whether runs take longer since a version, or less long. @param {any} version @returns {"slower" | "faster" | null} */
function changeOf({ beforeMs, afterMs }) {
  if (beforeMs === undefined || Math.abs(afterMs - beforeMs) < DIFFERS_MS) return null;
  if (afterMs >= DIFFERS * beforeMs) return "slower";
  return beforeMs >= DIFFERS * afterMs ? "faster" : null;
}

/** @param {any} point @param {string} zone */
function saysOf({ status, planTime, durationMs, lateMs, runs }, zone) {
  return [`${word("verdict", status)}, ${duration(durationMs)}`, full(planTime, zone), lateMs >= 1000 && t("job.late", { time: duration(lateMs) }), runs > 1 && t("durations.of", { n: runs })].filter(Boolean).join("\n");
}
