/** The cells of one job's row. */
import { offered } from "../caller.js";
import { h, icon } from "../dom.js";
import { expressions } from "../job/values.js";
import { jobUrl, runUrl } from "../links.js";
import { stamp } from "../stamp.js";
import { t } from "../text.js";
import { badge, strip, whyOf } from "../verdicts.js";
import { full, zoneFor } from "../zones.js";

/** @typedef {import("../dom.js").Child} Child */
/** @typedef {any} JobRow as the contract of GET /jobs says */

/**
 * Each column: its class, what it depends on, how it is drawn. A cell is drawn again only when that has changed, so
 * that neither the focus nor a selection is lost.
 * @type {{name: string, of: (job: JobRow) => unknown, draw: (job: JobRow) => Child[]}[]}
 */
export const COLUMNS = [
  { name: "state", of: (job) => [job.state, job.problem, job.paused], draw: state },
  { name: "name", of: (job) => [job.name, job.spec?.labels, job.problem], draw: name },
  { name: "schedule", of: (job) => [job.words, job.spec?.cronExpr, job.spec?.timezone, job.problem], draw: schedule },
  { name: "next", of: (job) => [job.nextFire, job.paused, job.spec?.timezone], draw: next },
  { name: "last", of: (job) => [job.lastResult, job.resultUnknown, job.running.length > 0, job.waiting, job.spec?.timezone], draw: last },
  { name: "recent", of: (job) => [job.recent, job.resultUnknown], draw: recent },
  { name: "running", of: (job) => job.running, draw: running },
  { name: "actions", of: (job) => [job.state, job.running.length > 0, job.spec?.labels], draw: actions },
];

/** @param {JobRow} job */
function state(job) {
  return [badge(job.state, { title: job.problem ?? job.paused?.reason ?? undefined })];
}

/** @param {JobRow} job */
function name(job) {
  const labels = Object.entries(job.spec?.labels ?? {});
  return [
    h("a", { href: jobUrl(job.name), class: "row-name", "data-row-link": true }, job.name),
    job.spec && job.problem && h("div", { class: "sub tone-bad clip", title: job.problem }, job.problem),
    labels.length > 0 && h("div", { class: "sub clip" }, labels.map(([key, value]) => h("span", { class: "label" }, `${key}=${value}`))),
  ];
}

/** @param {JobRow} job */
function schedule(job) {
  if (!job.spec) return [h("div", { class: "words-of sub tone-bad", title: job.problem }, job.problem)];
  const { cronExpr, timezone } = job.spec;
  const written = expressions(cronExpr).join(" | ");
  const inWords = job.words && job.words !== cronExpr;
  return [
    inWords && h("div", { class: "words-of", title: job.words }, job.words),
    h("div", { class: inWords ? "sub" : null }, written && h("code", { class: "expression", title: written }, written), h("span", { class: "zone" }, timezone)),
  ];
}

/** @param {JobRow} job */
function next(job) {
  const zone = job.spec?.timezone;
  if (job.state === "broken") return [];
  if (job.state === "paused") {
    if (!job.paused?.sinceMs) return [h("span", { class: "muted" }, t("jobs.paused"))];
    const { sinceMs, by, reason } = job.paused;
    const since = [t("jobs.paused.since"), " ", stamp(sinceMs, { zone })];
    return [h("div", {}, since), h("div", { class: "sub clip", title: `${reason ?? ""} (${by})` }, reason || by)];
  }
  if (!job.nextFire) return [h("span", { class: "muted" }, t(job.spec?.after ? "jobs.after" : "jobs.never"))];
  return [
    h("div", {}, stamp(job.nextFire.ms, { as: "until", zone })),
    h("div", { class: "sub" }, stamp(job.nextFire.ms, { zone })),
  ];
}

/** @param {JobRow} job */
function last(job) {
  const result = job.lastResult;
  if (!result) return none(job);
  const at = result.endTime ?? result.rangeEndTime ?? result.planTime;
  const why = whyOf(result);
  const href = result.runId && result.startTime ? runUrl(result.runId) : undefined;
  return [
    h("div", {}, badge(result.status, { href, title: why || undefined })),
    why && h("div", { class: "sub clip", title: why }, why),
    h("div", { class: "sub" }, stamp(at, { zone: job.spec?.timezone }), " · ", stamp(at, { as: "ago" })),
  ];
}

/** Nothing has come of it yet, as far as is known. @param {JobRow} job */
function none({ resultUnknown, running: going, waiting, spec }) {
  const muted = (/** @type {string} */ text) => [h("span", { class: "muted" }, text)];
  if (resultUnknown) return muted(t("jobs.result.unknown"));
  if (going.length) return muted(t("jobs.first.run"));
  if (!waiting) return muted(t("jobs.no.result"));
  const why = whyOf({ verdict: "waiting", reason: waiting.reason });
  return [
    h("div", {}, badge("waiting", { title: why })),
    h("div", { class: "sub clip", title: why }, why),
    h("div", { class: "sub" }, stamp(waiting.planTime, { zone: spec?.timezone }), " · ", stamp(waiting.planTime, { as: "ago" })),
  ];
}

/** @param {JobRow} job */
function recent(job) {
  if (job.resultUnknown || !job.recent.length) return [];
  return [strip(job.recent, (ms) => full(ms, zoneFor(job.spec?.timezone)))];
}

/** @param {JobRow} job */
function running(job) {
  const [first, ...more] = job.running;
  if (!first) return [];
  const since = first.startTime ?? first.planTime;
  const workers = [...new Set(job.running.map((/** @type {any} */ run) => run.worker).filter(Boolean))];
  return [
    h("a", { class: "badge tone-run", href: runUrl(first.id), title: first.worker },
      icon("play-circle-fill"), " ", stamp(since, { as: "lasting" })),
    more.length > 0 && h("div", { class: "sub clip", title: workers.join(", ") }, t("jobs.more.runs", { n: more.length }), workers.length > 1 && ` (${workers.join(", ")})`),
  ];
}

/** @param {JobRow} job */
function actions(job) {
  const toggle = job.state === "paused" ? ["resume", "play-fill"] : ["pause", "pause-fill"];
  return [
    button("run", "play-circle-fill", job, job.state === "broken"),
    link("log", "file-text", `${jobUrl(job.name)}#log`, job),
    link("edit", "pencil", `${jobUrl(job.name)}/edit`, job),
    button(toggle[0], toggle[1], job, job.state === "broken"),
    button("kill", "x-octagon", job, job.running.length === 0),
    button("delete", "trash", job),
  ];
}

/** @param {string} action @param {string} glyph @param {string} href @param {JobRow} job */
function link(action, glyph, href, job) {
  const label = `${t(`action.${action}`)}: ${job.name}`;
  const { disabled, title } = offered(action, job.spec?.labels);
  if (disabled) return h("button", { type: "button", class: "btn btn-quiet btn-icon", "data-key": action, disabled, title, "aria-label": `${label} (${title})` }, icon(glyph));
  return h("a", { class: "btn btn-quiet btn-icon", href, "aria-label": label, title: t(`action.${action}`) }, icon(glyph));
}

/** @param {string} action @param {string} glyph @param {JobRow} job @param {boolean} [off] */
function button(action, glyph, job, off = false) {
  const label = `${t(`action.${action}`)}: ${job.name}`;
  const attributes = { type: "button", class: "btn btn-quiet btn-icon", "data-key": action, "data-action": action, "aria-label": label };
  return h("button", { ...attributes, ...offered(action, job.spec?.labels, { title: t(`action.${action}`), disabled: off }) }, icon(glyph));
}
