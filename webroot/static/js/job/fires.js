/** Every run and every fire in one list: what became of it, and why; also those that somebody asked for. */
import { get, jobPath } from "../api.js";
import { byId, h } from "../dom.js";
import { duration } from "../durations.js";
import { grid } from "../grid.js";
import { runUrl } from "../links.js";
import { Pager } from "../pager.js";
import { redraw } from "../redraw.js";
import { stamp } from "../stamp.js";
import { t, word } from "../text.js";
import { badge, whyApart, whyOf } from "../verdicts.js";
import { full, zoneFor } from "../zones.js";
import { Range } from "./range.js";

const A_PAGE = 25;

export class Fires {
  /** @param {string} name of the job @param {() => void} changed the user wants to see others */
  constructor(name, changed) {
    this.path = `${jobPath(name)}/fires`;
    this.pager = new Pager(t("job.pager"), changed);
    this.range = new Range(byId("range"), () => {
      this.pager.reset();
      changed();
    });
  }

  /** @param {any} job null: it has been deleted @param {AbortSignal} signal @returns {Promise<{warnings: string[]}>} those that may pass */
  async load(job, signal) {
    const span = this.range.isNewest ? { from: 0 } : this.range.span;
    const { items, nextCursor, warnings, isPartial } = await get(this.path, { query: { ...span, cursor: this.pager.cursor, limit: A_PAGE }, signal });
    const zone = job?.spec?.timezone;
    const columns = [
      { key: "verdict", draw: verdict, className: "wraps" },
      { key: "planned", draw: (/** @type {any} */ fire) => [stamp(fire.planTime, { zone }), ...(fire.rangeEndTime ? [" … ", stamp(fire.rangeEndTime, { zone })] : [])] },
      { key: "started", draw: (/** @type {any} */ fire) => started(fire, zone) },
      { key: "duration", draw: took, className: "num" },
      { key: "worker", draw: (/** @type {any} */ { worker, takers }) => worker ?? (takers?.length > 0 && h("span", { class: "sub" }, takersOf(takers))), className: "wraps" },
      { key: "trigger", draw: trigger, className: "wraps" },
    ];
    const none = t(this.range.isNewest ? "job.recent.none" : "job.recent.none.there");
    const table = items.length > 0 && scrolls(t("job.tab.runs"), grid(t("job.tab.runs"), columns, items, "auto stack", keyOf));
    redraw(byId("recent"), table || h("p", { class: "empty" }, none), this.pager.buttons(nextCursor));
    return { warnings: isPartial ? warnings : [] };
  }
}

/** @param {any} fire */
const keyOf = ({ planTime, runId }) => `${planTime} ${runId ?? ""}`;

/** A table that is wider than its place is moved by itself. @param {string} label @param {HTMLElement} table */
export const scrolls = (label, table) => h("div", { class: "scroll-x", role: "group", tabindex: 0, "aria-label": label }, table);

/** Who tries first. @param {string[]} takers */
export const takersOf = ([first, ...others]) => (others.length ? t("job.takers", { first, others: others.join(", ") }) : first);

/** @param {any} fire */
function verdict(fire) {
  const { verdict: code, runId, startTime, attempts, count, countIsMinimum } = fire;
  const link = badge(code, { href: runId && (startTime || code === "claimed") ? runUrl(runId) : undefined, of: full(fire.planTime, zoneFor()) });
  link.setAttribute("data-row-link", "");
  const many = count > 1 && t(countIsMinimum ? "job.fires.least" : "job.fires", { n: count });
  const why = whyOf(fire) && whyApart(fire);
  return [link, (many || why) && h("div", { class: "sub" }, many, many && why && "; ", why),
    attempts > 1 && h("div", { class: "sub" }, t("job.attempts"), " ", attemptsOf(runId, attempts))];
}

/** A link to each attempt. @param {string} runId of one of them @param {number} attempts */
function attemptsOf(runId, attempts) {
  const links = Array.from({ length: attempts }, (_, index) => h("a", { href: runUrl(runId.replace(/#\d+$/, `#${index + 1}`)), "aria-label": t("job.attempt", { n: index + 1 }) }, index + 1));
  return h("span", {}, links.flatMap((link, index) => (index ? [", ", link] : [link])));
}

/** With how late it was; a later attempt is not late: it had to wait. @param {any} fire @param {string} [zone] */
function started({ startTime, planTime, attempt }, zone) {
  const late = !(attempt > 1) && startTime - planTime >= 1000 && t("job.late", { time: duration(startTime - planTime) });
  return startTime && [stamp(startTime, { zone }), late && h("div", { class: "sub" }, late)];
}

/** @param {any} fire */
function took({ startTime, endTime, verdict: code }) {
  if (!startTime) return null;
  return endTime ? duration(endTime - startTime) : code === "running" && stamp(startTime, { as: "lasting" });
}

/** @param {any} fire */
const trigger = ({ trigger: code, by }) => [word("trigger", code), by && h("div", { class: "sub" }, by)];
