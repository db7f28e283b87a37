/** Runs with all their times, page by page; those that are going first, then the newest. */
import { get } from "../api.js";
import { h, icon } from "../dom.js";
import { duration } from "../durations.js";
import { grid } from "../grid.js";
import { jobUrl, runUrl } from "../links.js";
import { Pager } from "../pager.js";
import { redraw } from "../redraw.js";
import { stamp } from "../stamp.js";
import { t, word } from "../text.js";
import { badge, codeOf, whyOf } from "../verdicts.js";

const A_PAGE = 25;

/** Planned and started in one look: how late it was. @param {any} run */
export const lateness = (run) => (run.startTime && run.planTime ? run.startTime - run.planTime : null);

/** @param {any} run */
export const took = (run) => (run.startTime && run.endTime ? run.endTime - run.startTime : null);

/** @param {(run: any) => string | undefined} zoneOf */
function columns(zoneOf) {
  const time = (/** @type {string} */ field) => (/** @type {any} */ run) => stamp(run[field] || null, { zone: zoneOf(run) });
  return [
    { key: "status", draw: (/** @type {any} */ run) => [link(run), why(run)], className: "wraps status" },
    { key: "planned", draw: time("planTime") },
    { key: "job", draw: (/** @type {any} */ run) => h("a", { href: jobUrl(run.jobName) }, run.jobName) },
    { key: "exit", draw: (/** @type {any} */ run) => run.exitCode ?? (run.signal ? t("run.signal", { signal: String(run.signal) }) : null), className: "num" },
    { key: "worker", draw: (/** @type {any} */ run) => run.worker },
    { key: "claimed", draw: time("claimTime") },
    { key: "started", draw: time("startTime") },
    { key: "ended", draw: time("endTime") },
    { key: "lateness", draw: (/** @type {any} */ run) => duration(lateness(run)), className: "num" },
    { key: "duration", draw: (/** @type {any} */ run) => (run.startTime && !run.endTime ? stamp(run.startTime, { as: "lasting" }) : duration(took(run))), className: "num" },
    { key: "attempt", draw: (/** @type {any} */ run) => run.attempt, className: "num" },
    { key: "trigger", draw: (/** @type {any} */ run) => h("span", { title: run.by }, word("trigger", run.trigger)) },
  ];
}

/** @param {any} run */
function link(run) {
  const element = badge(codeOf(run), { href: runUrl(run.id) });
  element.setAttribute("data-row-link", "");
  return element;
}

/** @param {any} run */
function why(run) {
  const text = whyOf(run);
  return text && h("div", { class: "sub clip why", title: text }, text);
}

export class RunList {
  /**
   * @param {HTMLElement} box
   * @param {{caption: string, query: () => Record<string, string>, job?: boolean, zoneOf?: (run: any) => string | undefined}} options
   *   `job`: with a column for the job
   */
  constructor(box, { caption, query, job = true, zoneOf = () => undefined }) {
    this.box = box;
    this.caption = caption;
    this.query = query;
    this.withJob = job;
    this.columns = columns(zoneOf).filter(({ key }) => job || key !== "job");
    this.pager = new Pager(t("pager.label"), () => this.onStep());
  }

  /** Goes back to the first page. */
  reset() {
    this.pager.reset();
  }

  wanted() {
    return { ...this.query(), cursor: this.pager.cursor };
  }

  /**
   * @param {AbortSignal} signal
   * @returns {Promise<{items: any[], warnings: string[]}>} what the page has, and what there is to know about it
   */
  async load(signal) {
    const wanted = this.wanted();
    const { items, nextCursor, waiting = [], warnings = [] } = await get("/runs", { query: { ...wanted, limit: A_PAGE }, signal });
    if (JSON.stringify(wanted) !== JSON.stringify(this.wanted())) return { items, warnings }; // somebody types: others are asked for in a moment
    const known = new Set(items.map((/** @type {any} */ run) => run.id));
    const ended = items.findIndex((/** @type {any} */ run) => run.state === "finished");
    const going = ended < 0 ? items.length : ended;
    const waits = waiting.filter((/** @type {any} */ run) => !known.has(run.id));
    this.draw([...items.slice(0, going), ...waits, ...items.slice(going)], nextCursor);
    return { items, warnings };
  }

  /** @param {any[]} runs @param {string | null} nextCursor */
  draw(runs, nextCursor) {
    redraw(this.box,
      runs.length ? h("div", { class: "scroll-x", role: "region", tabindex: 0, "aria-label": this.caption }, grid(this.caption, this.columns, runs, "auto", ({ id }) => id)) : h("p", { class: "empty" }, icon("info-circle"), " ", t(Object.entries(this.query()).some(([name, value]) => value && (this.withJob || name !== "job")) ? "runs.none" : "runs.none.yet")),
      this.pager.buttons(nextCursor));
  }

  /** Somebody wants another page; whoever loads replaces this. */
  onStep() {}
}
