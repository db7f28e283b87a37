/** Why did it not run? Every planned fire with what became of it, and those to come with who would take them. */
import { get, jobPath } from "../api.js";
import { now } from "../clock.js";
import { byId, h, icon } from "../dom.js";
import { duration } from "../durations.js";
import { grid } from "../grid.js";
import { runUrl } from "../links.js";
import { Pager } from "../pager.js";
import { redraw } from "../redraw.js";
import { stamp } from "../stamp.js";
import { listed, t } from "../text.js";
import { badge, whyOf } from "../verdicts.js";
import { Range } from "./range.js";

const NEWEST = 10;
const A_PAGE = 25;
const HOUR_MS = 3_600_000;
/** A run that a schedule has planned: its id has the plan time. */
const PLANNED = /@\d+#\d+$/;

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

  /** @param {any} job null: it has been deleted @param {AbortSignal} signal */
  async load(job, signal) {
    const { recent, upcoming } = await get(this.path, { signal });
    const zone = job?.spec?.timezone;
    const last = upcoming.at(-1)?.ms;
    const [past, toCome] = await Promise.all([
      this.page(recent, signal),
      last ? get(this.path, { query: { from: now(), to: last, limit: upcoming.length }, signal }) : { items: [] },
    ]);
    this.showPast(past, job);
    const known = new Map(toCome.items.map((/** @type {any} */ fire) => [fire.planTime, fire]));
    showUpcoming(upcoming.map((/** @type {any} */ fire) => ({ ...fire, ...known.get(fire.ms) })), zone, job);
  }

  /** @param {any[]} recent @param {AbortSignal} signal */
  async page(recent, signal) {
    if (!this.range.isNewest) return get(this.path, { query: { ...this.range.span, cursor: this.pager.cursor, limit: A_PAGE }, signal });
    const oldest = recent.filter(({ runId }) => !runId || PLANNED.test(runId)).at(NEWEST - 1) ?? recent.at(-1);
    const { items } = await get(this.path, { query: { from: Math.min(oldest?.planTime ?? Infinity, now() - HOUR_MS), limit: NEWEST }, signal });
    return { items, nextCursor: null };
  }

  /** @param {{items: any[], nextCursor: string | null}} page @param {any} job */
  showPast({ items, nextCursor }, job) {
    const zone = job?.spec?.timezone;
    const columns = [
      { key: "planned", draw: (/** @type {any} */ fire) => [stamp(fire.planTime, { zone }), ...(fire.rangeEndTime ? [" … ", stamp(fire.rangeEndTime, { zone })] : [])] },
      { key: "verdict", draw: verdict },
      { key: "why", draw: (/** @type {any} */ fire) => why(fire, job?.spec?.broadcast), className: "wraps sub" },
    ];
    const none = t(this.range.isNewest ? "job.recent.none" : "job.recent.none.there");
    const table = items.length > 0 && scrolls(t("job.recent"), grid(t("job.recent"), columns, items, "auto stack", keyOf));
    redraw(byId("recent"), table || h("p", { class: "muted" }, none), this.pager.buttons(nextCursor));
  }
}

/** @param {any} fire that was planned, or that is to come */
const keyOf = ({ planTime, ms }) => ms ?? planTime;

/** @param {any} fire */
function verdict({ verdict: code, runId, startTime, attempts }) {
  const href = runId && (startTime || code === "claimed") ? runUrl(runId) : undefined;
  return [badge(code, { href }), attempts > 1 && h("div", { class: "sub" }, t("job.attempts"), " ", attemptsOf(runId, attempts))];
}

/** A link to each attempt. @param {string} runId of one of them @param {number} attempts */
function attemptsOf(runId, attempts) {
  const links = Array.from({ length: attempts }, (_, index) => h("a", { href: runUrl(runId.replace(/#\d+$/, `#${index + 1}`)), "aria-label": t("job.attempt", { n: index + 1 }) }, index + 1));
  return h("span", {}, links.flatMap((link, index) => (index ? [", ", link] : [link])));
}

/** @param {any} fire @param {boolean} isEach each of the workers takes it */
function why(fire, isEach) {
  const { count, countIsMinimum, startTime, endTime, planTime, worker, takers, attempt } = fire;
  const reason = whyOf(fire);
  const many = count > 1 && t(countIsMinimum ? "job.fires.least" : "job.fires", { n: count });
  const took = startTime && endTime && t("job.took", { time: duration(endTime - startTime) });
  const on = startTime && worker && t("ask.on", { worker });
  const late = !(attempt > 1) && startTime - planTime >= 1000 && // a later attempt is not late: it had to wait
    t("job.late", { time: duration(startTime - planTime) });
  const who = takers?.length > 0 && orderOf(takers, isEach);
  return [many, reason, !reason && took, !reason && on, late, who].filter(Boolean).join("; ");
}

/** @param {string[]} takers in the order in which they try @param {boolean} isEach they do not wait for each other */
function orderOf(takers, isEach) {
  const [first, ...others] = takers;
  return isEach || !others.length ? listed(takers) : t("job.takers", { first, others: listed(others) });
}

/** @param {any[]} fires @param {string | undefined} zone @param {any} job */
function showUpcoming(fires, zone, job) {
  const [first, ...others] = fires.map((fire) => (fire.open !== false && !fire.takers?.length && fire.verdict ? whyOf(fire) : ""));
  const said = first && others.length && others.every((one) => one === first) ? first : "";
  const columns = [
    { key: "planned", draw: (/** @type {any} */ fire) => stamp(fire.ms, { zone }) },
    { key: "in", draw: (/** @type {any} */ fire) => stamp(fire.ms, { as: "until" }) },
    { key: "takers", draw: (/** @type {any} */ fire) => taker(fire, said, job?.spec?.broadcast), className: "wraps" },
  ];
  redraw(byId("upcoming"), said && h("p", { class: "note note-warn" }, icon("exclamation-triangle-fill"), h("span", {}, said)),
    fires.length ? scrolls(t("job.upcoming"), grid(t("job.upcoming"), columns, fires, "auto", keyOf)) : h("p", { class: "muted" }, none(job)));
}

/** A table that is wider than its place is moved by itself. @param {string} label @param {HTMLElement} table */
const scrolls = (label, table) => h("div", { class: "scroll-x", role: "region", tabindex: 0, "aria-label": label }, table);

/** Who would take it, or why it will not run. @param {any} fire @param {string} said why nobody can take any of them, as it stands above @param {boolean} isEach each of them takes it */
function taker({ open, takers, note, ...fire }, said, isEach) {
  const nobody = fire.verdict && whyOf(fire);
  const who = open === false ? badge("closed") : takers?.length ? orderOf(takers, isEach) : nobody && h("span", { class: "tone-warn" }, nobody === said ? t("job.nobody") : nobody);
  return [who, note && h("div", { class: "sub tone-warn" }, note)];
}

/** Why there are none to come. @param {any} job */
function none(job) {
  if (!job) return t("job.upcoming.deleted");
  if (job.state === "paused") return t("job.upcoming.paused");
  return job.spec?.after ? t("job.upcoming.after", { words: job.words }) : t("job.upcoming.none");
}
