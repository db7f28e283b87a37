/** Runs, page by page; those that are going first, then the newest. */
import { get } from "../api.js";
import { h, icon } from "../dom.js";
import { duration } from "../durations.js";
import { grid } from "../grid.js";
import { jobUrl, runUrl, workerUrl } from "../links.js";
import { Pager } from "../pager.js";
import { redraw } from "../redraw.js";
import { stamp } from "../stamp.js";
import { t, word } from "../text.js";
import { badge, codeOf, whyInShort, whyOf } from "../verdicts.js";
import { full, zoneFor } from "../zones.js";

const A_PAGE = 25;
/** Less than this is no lateness that anybody looks for. */
const LATE_MS = 1000;

/** How late it started, by when this very attempt was due; null: not known. @param {any} run */
export function lateness({ startTime, planTime, dueTime, attempt }) {
  const dueMs = dueTime ?? (attempt > 1 ? null : planTime); // an older worker does not say when a retry was due
  return startTime && dueMs ? Math.max(0, startTime - dueMs) : null;
}

/** @param {any} run */
export const took = (run) => (run.startTime && run.endTime ? run.endTime - run.startTime : null);

const COLUMNS = [
  { key: "status", draw: (/** @type {any} */ run) => [link(run), why(run)], className: "wraps status" },
  { key: "job", draw: (/** @type {any} */ run) => h("a", { href: jobUrl(run.jobName), class: "row-name" }, run.jobName), className: "wraps r-job" },
  { key: "planned", draw: (/** @type {any} */ run) => [stamp(run.planTime || null), late(run)], className: "r-planned" },
  { key: "duration", draw: (/** @type {any} */ run) => (run.startTime && !run.endTime ? stamp(run.startTime, { as: "lasting" }) : duration(took(run))), className: "num r-took" },
  { key: "worker", draw: (/** @type {any} */ run) => run.worker && h("a", { href: workerUrl(run.worker) }, run.worker), className: "wraps r-worker" },
  { key: "trigger", draw: (/** @type {any} */ run) => [h("span", { title: run.by }, word("trigger", run.trigger)), run.attempt > 1 && h("div", { class: "sub" }, t("job.attempt", { n: run.attempt }))], className: "r-trigger" },
];

/** @param {any} run */
function link(run) {
  const element = badge(codeOf(run), { href: runUrl(run.id), of: `${run.jobName}, ${full(run.planTime, zoneFor())}` });
  element.setAttribute("data-row-link", "");
  return element;
}

/** @param {any} run */
function why(run) {
  const text = whyOf(run);
  return text && h("div", { class: "sub clip why", title: text }, whyInShort(run));
}

/** @param {any} run */
function late(run) {
  const ms = lateness(run);
  return ms >= LATE_MS && h("div", { class: "sub tone-warn" }, t("job.late", { time: duration(ms) }));
}

export class RunList {
  /**
   * @param {HTMLElement} box
   * @param {{query: () => Record<string, string | string[]>, key: () => string, isNarrow: () => boolean}} options
   *   `key`: what tells one query from another; `isNarrow`: whether others than these may be there
   */
  constructor(box, { query, key, isNarrow }) {
    this.box = box;
    this.query = query;
    this.key = key;
    this.isNarrow = isNarrow;
    this.pager = new Pager(t("pager.label"), () => this.onStep(), "cursor");
  }

  /** Goes back to the first page. */
  reset() {
    this.pager.reset();
  }

  /**
   * @param {AbortSignal} signal
   * @returns {Promise<{items: any[], warnings: string[]}>} what the page has, and what there is to know about it
   */
  async load(signal) {
    const wanted = () => `${this.key()} ${this.pager.cursor}`;
    const asked = wanted();
    const { items, nextCursor, lookedTime, waiting = [], warnings = [] } = await get("/runs", { query: { ...this.query(), cursor: this.pager.cursor, limit: A_PAGE }, signal });
    const known = new Set(items.map((/** @type {any} */ run) => run.id));
    const going = items.filter((/** @type {any} */ run) => run.state !== "finished").length;
    items.splice(going, 0, ...waiting.filter((/** @type {any} */ run) => !known.has(run.id)));
    if (asked === wanted()) this.draw(items, nextCursor, lookedTime); // else somebody types: others are asked for in a moment
    return { items, warnings };
  }

  /** @param {any[]} runs @param {string | null} nextCursor @param {number | null} [lookedTime] how far back it was looked, where that ended the page */
  draw(runs, nextCursor, lookedTime) {
    const isPartial = nextCursor && (lookedTime || !runs.length);
    redraw(this.box,
      runs.length ? h("div", { class: "scroll-x", role: "group", tabindex: 0, "aria-label": t("title.runs") }, grid(t("title.runs"), COLUMNS, runs, "auto stack runs", ({ id }) => id)) : this.nothing(Boolean(isPartial)),
      isPartial && h("p", { class: "muted looked" }, icon("info-circle"), " ", lookedTime ? [t("runs.looked"), " ", stamp(lookedTime, { as: "long" }), ". "] : "", t("runs.looked.more")),
      this.pager.buttons(nextCursor));
  }

  /** @param {boolean} isPartial */
  nothing(isPartial) {
    if (isPartial) return h("p", { class: "empty" }, icon("info-circle"), " ", t("runs.none.here"));
    return h("p", { class: "empty" }, icon("info-circle"), " ", t(this.isNarrow() || this.pager.cursor ? "runs.none" : "runs.none.yet"));
  }

  /** Somebody wants another page; whoever loads replaces this. */
  onStep() {}
}
