/** Is the job well? One sentence, the end of what went wrong, its newest runs as bars, and how long they take. */
import { get } from "../api.js";
import { byId, h, icon } from "../dom.js";
import { duration } from "../durations.js";
import { facts } from "../grid.js";
import { runUrl } from "../links.js";
import { printable, uncoloured } from "../printed.js";
import { redraw } from "../redraw.js";
import { stamp } from "../stamp.js";
import { number, t, word } from "../text.js";
import { FAILURES, lookOf, perWorker, summary, toneOf, whyApart, whyInShort, whyOf } from "../verdicts.js";
import { full, parts, zoneFor } from "../zones.js";
import { tally } from "./tally.js";

const TAIL_LINES = 6;
/** So many are kept of a job. */
const MOST = 60;
/** A bar has one of so many heights. */
const LEVELS = 8;

/** @typedef {import("../dom.js").Child} Child */
/** @typedef {import("./tally.js").Newest} Newest */

/** The end of the output of the run that failed last; other runs' are not asked for. */
const tail = { runId: "", text: "" };

/** The record of the fires that were missed last: how many, until when and why. @type {any} */
let range = {};

/** @param {any} job as GET /jobs/{name} says @param {AbortSignal} signal */
export async function showHealth(job, signal) {
  draw(job);
  const { lastResult: last } = job, { missedId } = tally(job.recent);
  if (missedId && missedId !== range.id) {
    try {
      range = await get(`/runs/${encodeURIComponent(missedId)}`, { signal });
      draw(job);
    } catch (error) {
      if (signal.aborted) throw error; // else the sentence says that there are some
    }
  }
  if (!last || !FAILURES.includes(last.status) || !last.startTime || last.runId === tail.runId) return;
  try {
    const found = await get(`/runs/${encodeURIComponent(last.runId)}/output`, { query: { tail: TAIL_LINES }, signal });
    Object.assign(tail, { runId: last.runId, text: (found.text ?? "").trimEnd() });
    draw(job);
  } catch (error) {
    if (signal.aborted) throw error; // else the sentence says enough
  }
}

/** @param {any} job */
function draw(job) {
  const [state, glyph, says] = stateOf(job);
  const { overdue } = job;
  const tone = overdue && state !== "bad" ? "warn" : state;
  const { lastResult: last } = job;
  const failed = tone === "bad" && last;
  const isTold = failed && last.status === "missed" && range.id === tally(job.recent).missedId && range.count > 1; // the sentence has why
  const isSame = isTold && overdue && whyOf(range).includes(whyOf({ ...overdue, verdict: "waiting" }));
  const box = byId("health");
  box.className = `health is-${tone}`;
  redraw(box,
    h("div", { class: "health-says" }, h("span", { class: `tone-${state}` }, icon(glyph)), h("p", {}, says)),
    overdue && h("p", { class: "health-overdue tone-warn" }, icon("hourglass-bottom"), " ", h("strong", {}, around(t(isSame ? "health.overdue.same" : "health.overdue", { ...WHEN, why: whyInShort({ ...overdue, verdict: "waiting" }) }), stamp(overdue.planTime, { zone: job.spec?.timezone })))),
    failed && h("div", { class: "health-why" }, isTold ? perWorker(last) : whyApart(last), " ", last.runId && h("a", { href: runUrl(last.runId) }, t("health.run"))),
    failed && tail.runId === last.runId && tail.text && h("pre", { class: "health-tail", tabindex: 0, "aria-label": t("health.tail") }, printable(uncoloured(tail.text))),
    job.recent.length > 0 && [h("div", { class: "sub" }, t(job.recent.some((/** @type {Newest} */ one) => one.durationMs !== undefined) ? "health.newest" : "health.newest.missed", { n: job.recent.length })), bars(job.recent, job.spec?.timezone)],
    h("dl", { class: "figures" }, facts(figures(job))));
}

/** @param {any} job @returns {[string, string, Child[]]} tone, icon, words */
function stateOf(job) {
  const zone = job.spec?.timezone;
  const { lastResult: last, recent, running, usualMs, waiting } = job;
  const going = running[0]?.startTime ? [...around(t("health.running", WHEN), stamp(running[0].startTime, { as: "lasting" })), " "] : [];
  const usual = usualMs !== undefined && `${t("health.usual", { time: duration(usualMs) })} `;
  if (job.state === "broken") return ["bad", "exclamation-triangle-fill", [h("strong", {}, t("health.broken"))]];
  if (!last && job.warnings?.length) return ["idle", "question-diamond-fill", [h("strong", {}, t("health.unknown")), " ", ...going]];
  if (!last && waiting) return ["warn", "hourglass-bottom", [h("strong", {}, around(t("health.waiting", { ...WHEN, why: whyInShort({ ...waiting, verdict: "waiting" }) }), stamp(waiting.planTime, { zone })))]];
  if (!last) return going.length ? ["run", "play-circle-fill", [h("strong", {}, going), t("health.first")]] : ["idle", "circle-half", [h("strong", {}, t("health.never"))]];
  const { streak: n, since, isAll, missed, missedMs, missedId } = tally(recent);
  const fires = range.id === missedId && range.count > 1 && around(
    t(missed > 1 ? "health.range.times" : "health.range", { ...WHEN, n: range.count, times: missed, why: whyInShort(range) }), [stamp(range.planTime, { zone }), " – ", stamp(range.rangeEndTime, { zone })]);
  const more = [...lastSuccess(job, zone), usual, ...going];
  if (FAILURES.includes(last.status)) {
    const many = isAll && recent.length >= MOST ? "health.failing.least" : "health.failing";
    const said = n > 1 ? t(many, { ...WHEN, n }) : t(`health.${last.status}`, WHEN);
    const misses = last.status === "missed" && fires;
    return ["bad", "x-circle-fill", [h("strong", {}, misses && n === 1 ? misses : around(said, stamp(since ?? last.planTime, { zone }))), " ", misses && n > 1 && [...misses, " "], ...more]];
  }
  if (last.status === "success") {
    const misses = missed ? [h("span", { class: "tone-warn" }, fires || around(t("health.misses", { ...WHEN, n: missed }), stamp(missedMs ?? 0, { zone }))), " "] : [];
    return ["ok", "check-circle-fill", [h("strong", {}, around(t(n > 1 ? "health.well" : "health.success", { ...WHEN, n }), stamp(last.endTime ?? last.planTime, { as: "ago" }))), " ", ...misses, usual, ...going]];
  }
  const what = [word("verdict", last.status), whyOf(last)].filter(Boolean).join(", ");
  return ["idle", toneOf(last.status) === "warn" ? "stop-circle-fill" : "skip-forward-fill", [h("strong", {}, around(t("health.last", { ...WHEN, what }), stamp(last.planTime, { zone }))), " ", ...more]];
}

/** @param {number} ms @param {string} zone */
const clock = (ms, zone) => parts(ms, zone).time;

/** Where a time stands in a text. */
const WHEN = { when: "\0" };

/** A text with a time in it, which each language puts where it belongs. @param {string} text @param {Child | Child[]} time @returns {Child[]} */
function around(text, time) {
  const [before, after] = text.split(WHEN.when);
  return [before, ...[time].flat(), after];
}

/** @param {any} job @param {string} [zone] @returns {Child[]} */
function lastSuccess({ lastSuccessTime, recent }, zone) {
  const ms = lastSuccessTime ?? recent.findLast((/** @type {Newest} */ one) => one.status === "success")?.planTime;
  return ms ? [...around(t("health.last.success", WHEN), stamp(ms, { zone })), " "] : [t("health.no.success"), " "];
}

/** @param {any} job @returns {[string, Child | Child[]][]} */
function figures({ recent, usualMs, spec, state, nextFire }) {
  const own = spec?.timezone;
  const { owed, good, missed, took } = tally(recent), n = owed - missed; // a record of missed ones may be of many
  return [
    ["health.rate", n > 0 && [`${number(Math.floor((100 * good) / n))} %`, h("span", { class: "sub" }, ` ${t(missed ? "health.of.started" : "health.of", { good, n })}`)]],
    ["health.median", usualMs !== undefined && duration(usualMs)],
    ["health.p95", usualMs !== undefined && duration(took[Math.ceil(0.95 * took.length) - 1])],
    ["column.next", nextFire ? [stamp(nextFire.ms, { as: "until" }), h("span", { class: "sub" }, " ", stamp(nextFire.ms, { zone: own }), own && own !== zoneFor(own) && ` = ${clock(nextFire.ms, own)} ${own}`)] : state === "enabled" && spec?.after && t("jobs.after")],
  ];
}

/**
 * The newest runs, oldest first: a link each, as high as it took long. Arrow keys move among them: they are one stop.
 * @param {Newest[]} recent @param {string} [zone]
 */
function bars(recent, zone) {
  const took = recent.flatMap(({ durationMs }) => durationMs ?? []).sort((one, other) => one - other);
  const most = took[Math.ceil(0.95 * took.length) - 1] ?? 1;
  const links = recent.map(({ status, planTime, runId, durationMs }, at) => {
    const level = durationMs === undefined ? 1 : Math.max(1, Math.min(LEVELS, Math.ceil((LEVELS * durationMs) / Math.max(1, most))));
    const says = [word("verdict", status), full(planTime, zoneFor(zone)), durationMs !== undefined && duration(durationMs)].filter(Boolean).join(", ");
    return h("a", { class: `bar-of ${lookOf(status)} level-${level}`, href: runUrl(runId), "data-key": `${runId} ${status}`, "aria-label": says, title: says, tabindex: at === recent.length - 1 ? 0 : -1 });
  });
  return h("div", { class: "strip strip-large", role: "group", "aria-label": `${t("health.strip")}: ${summary(recent)}` }, links);
}

/** Moves among the bars. @param {KeyboardEvent} event */
function step(event) {
  const links = /** @type {HTMLElement[]} */ ([...document.querySelectorAll(".strip-large a")]);
  const at = links.indexOf(/** @type {HTMLElement} */ (event.target));
  const next = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: links.length - 1 }[event.key];
  if (at < 0 || next === undefined) return;
  event.preventDefault();
  links[Math.max(0, Math.min(links.length - 1, next))].focus();
}

byId("health").addEventListener("keydown", step);
