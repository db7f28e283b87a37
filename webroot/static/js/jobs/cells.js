/** The cells of one job's row, each a line. */
import { h, icon } from "../dom.js";
import { duration } from "../durations.js";
import { expressions } from "../job/values.js";
import { labelChip, labelsOf } from "../label_chips.js";
import { jobUrl, runUrl } from "../links.js";
import { took } from "../runs/list.js";
import { stamp } from "../stamp.js";
import { listed, t, word } from "../text.js";
import { badge, strip, whyInShort, whyOf } from "../verdicts.js";
import { full, zoneFor } from "../zones.js";
import { query } from "./query.js";

/** @typedef {import("../dom.js").Child} Child */
/** @typedef {any} JobRow as the contract of GET /jobs says */

/**
 * Each column: its class, what it depends on, how it is drawn. A cell is drawn again only when that has changed, so
 * that neither the focus nor a selection is lost.
 * @type {{name: string, of: (job: JobRow) => unknown, draw: (job: JobRow) => Child[]}[]}
 */
export const COLUMNS = [
  { name: "state", of: (job) => [job.state, job.problem, job.paused, job.running, job.usualMs], draw: state },
  { name: "name", of: (job) => [job.name, job.spec?.labels, job.problem], draw: name },
  { name: "schedule", of: (job) => [job.words, job.spec?.cronExpr, job.spec?.timezone, job.problem], draw: schedule },
  { name: "next", of: (job) => [job.nextFire, job.paused, job.spec?.timezone], draw: next },
  { name: "last", of: (job) => [job.lastResult, job.resultUnknown, job.running.length > 0, job.waiting, job.spec?.timezone, job.lastFailureTime, sortsByFailure()], draw: last },
  { name: "took", of: (job) => [job.lastRun, job.usualMs], draw: lasted },
  { name: "recent", of: (job) => [job.recent, job.resultUnknown], draw: recent },
  { name: "actions", of: () => null, draw: actions },
];

/** What runs of it, and whether anything keeps it from firing. @param {JobRow} job */
function state(job) {
  const own = badge(job.state, { title: job.problem ?? job.paused?.reason ?? undefined });
  if (!job.running.length) return [own];
  return [...running(job), job.state !== "enabled" && own];
}

/** @param {JobRow} job */
function name(job) {
  const labels = labelsOf(job.spec);
  return [h("div", { class: "line" },
    h("a", { href: jobUrl(job.name), class: "row-name", "data-row-link": true, title: job.name }, job.name),
    job.spec && job.problem && h("span", { class: "labels-of sub tone-bad", title: job.problem }, icon("exclamation-triangle-fill"), " ", job.problem),
    labels.length > 0 && h("span", { class: "labels-of", title: listed(labels) }, labels.map((label) => labelChip(label))))];
}

/** @param {JobRow} job */
function schedule(job) {
  if (!job.spec) return [h("span", { class: "words-of sub tone-bad", title: job.problem }, job.problem)];
  const { cronExpr, timezone } = job.spec;
  const written = expressions(cronExpr).join(" | ");
  const inWords = job.words && job.words !== cronExpr;
  const title = [written, timezone].filter(Boolean).join(" ");
  return [
    inWords && h("span", { class: "words-of", title }, job.words), !inWords && written && h("code", { class: "expression", title }, written),
    h("span", { class: "zone", title }, timezone), inWords && written && h("code", { class: "sub", title }, written),
  ];
}

/** @param {JobRow} job */
function next(job) {
  const zone = job.spec?.timezone;
  if (job.state === "broken") return [];
  if (job.state === "paused") {
    if (!job.paused?.sinceMs) return [h("span", { class: "muted" }, t("jobs.paused"))];
    const { sinceMs, by, reason } = job.paused;
    return [t("jobs.paused.since"), " ", stamp(sinceMs, { zone }), h("span", { class: "sub", title: `${reason ?? ""} (${by})` }, reason || by)];
  }
  if (!job.nextFire) return [h("span", { class: "muted" }, t(job.spec?.after ? "jobs.after" : "jobs.never"))];
  return [stamp(job.nextFire.ms, { as: "until", zone }), h("span", { class: "sub" }, stamp(job.nextFire.ms, { as: "short", zone }))];
}

const sortsByFailure = () => query().sort.endsWith("failure");

/** @param {JobRow} job */
function last(job) {
  const result = job.lastResult;
  if (!result) return none(job);
  const zone = job.spec?.timezone;
  const at = result.endTime ?? result.rangeEndTime ?? result.planTime;
  const why = whyOf(result);
  const href = result.runId && result.startTime ? runUrl(result.runId) : undefined;
  const failedBefore = sortsByFailure() && job.lastFailureTime && job.lastFailureTime < at;
  return [
    badge(result.status, { href, title: why || undefined, of: job.name }), " ", why && h("span", { class: "sub cause", title: why }, whyInShort(result)), stamp(at, { as: "ago", zone }),
    failedBefore && h("span", { class: "sub" }, t("jobs.failed"), " ", stamp(job.lastFailureTime, { as: "ago", zone })),
  ];
}

/** Nothing has come of it yet, as far as is known. @param {JobRow} job */
function none({ resultUnknown, running: going, waiting, spec }) {
  const muted = (/** @type {string} */ text) => [h("span", { class: "muted" }, text)];
  if (resultUnknown) return muted(t("jobs.result.unknown"));
  if (going.length) return muted(t("jobs.first.run"));
  if (!waiting) return muted(t("jobs.no.result"));
  const why = whyOf({ verdict: "waiting", reason: waiting.reason });
  return [badge("waiting", { title: why }), " ", stamp(waiting.planTime, { as: "ago", zone: spec?.timezone }), h("span", { class: "sub", title: why }, whyInShort({ verdict: "waiting", reason: waiting.reason }))];
}

/** How long its newest run took. @param {JobRow} job */
function lasted({ lastRun, usualMs }) {
  const ms = lastRun ? took(lastRun) : null;
  return ms === null ? [] : [h("span", { title: usualMs ? t("jobs.usually", { time: duration(usualMs) }) : null }, duration(ms))];
}

/** @param {JobRow} job */
function recent(job) {
  if (job.resultUnknown || !job.recent.length) return [];
  return [strip(job.recent, (ms) => full(ms, zoneFor(job.spec?.timezone)))];
}

/** @param {JobRow} job */
function running(job) {
  const [first, ...more] = job.running;
  const since = first.startTime ?? first.planTime;
  const workers = [...new Set(job.running.map((/** @type {any} */ run) => run.worker).filter(Boolean))];
  const usually = job.usualMs ? `, ${t("jobs.usually", { time: duration(job.usualMs) })}` : "";
  return [
    h("a", { class: "badge tone-run", href: runUrl(first.id), title: `${listed(workers)}${usually}` },
      icon("play-circle-fill"), " ", h("span", { class: "visually-hidden" }, word("verdict", "running"), " "), stamp(since, { as: "lasting" })),
    more.length > 0 && h("span", { class: "sub", title: listed(workers) }, t("jobs.more.runs", { n: more.length })),
  ];
}

/** One button; what it opens is drawn then. @param {JobRow} job */
function actions(job) {
  const label = t("jobs.actions", { name: job.name });
  return [h("div", { class: "dropdown" },
    h("button", { type: "button", class: "btn btn-quiet btn-icon", "data-bs-toggle": "dropdown", "aria-expanded": "false", "aria-label": label, title: label }, icon("three-dots")),
    h("div", { class: "dropdown-menu dropdown-menu-end" }))];
}
