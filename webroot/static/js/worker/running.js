/** What runs on a worker: for how long, against how long it usually takes, and the way to end it. */
import { killsRun } from "../actions.js";
import { offered } from "../caller.js";
import { h, icon } from "../dom.js";
import { duration } from "../durations.js";
import { grid } from "../grid.js";
import { now } from "../clock.js";
import { jobUrl, runUrl } from "../links.js";
import { stamp } from "../stamp.js";
import { t } from "../text.js";
import { badge } from "../verdicts.js";

const COLUMNS = [
  { key: "job", draw: (/** @type {any} */ run) => h("a", { href: jobUrl(run.jobName), class: "row-name", "data-row-link": true }, run.jobName), className: "wraps" },
  { key: "status", draw: (/** @type {any} */ run) => badge(run.state, { href: runUrl(run.id), of: run.jobName }) },
  { key: "duration", draw: lasting },
  { key: "started", draw: (/** @type {any} */ run) => stamp(run.startTime) },
  { key: "actions", draw: kill },
];

/** @param {any[]} runs */
export function runningTable(runs) {
  if (!runs.length) return h("p", { class: "muted" }, t("worker.running.none"));
  return grid(t("worker.running"), COLUMNS, runs, "auto stack", ({ id }) => id);
}

/** @param {any} run */
function lasting({ startTime, usualMs }) {
  if (!startTime) return null;
  const elapsed = Math.max(0, now() - startTime);
  return [
    usualMs && h("meter", { min: 0, max: usualMs, value: Math.min(elapsed, usualMs), "aria-label": t("worker.elapsed") }), usualMs && " ",
    stamp(startTime, { as: "lasting" }), usualMs && h("span", { class: "sub" }, " ", t("jobs.usually", { time: duration(usualMs) })),
  ];
}

/** @param {any} run */
function kill(run) {
  return h("button", { type: "button", class: "btn btn-plain", "data-key": "kill", ...killsRun(run), ...offered("kill", run.labels) }, icon("x-octagon"), " ", t("action.kill"));
}
