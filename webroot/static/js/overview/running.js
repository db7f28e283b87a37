/** The runs that have been going for longest: how far each is, by how long it usually takes. */
import { offered } from "../caller.js";
import { everySecond, now } from "../clock.js";
import { h, icon } from "../dom.js";
import { whole } from "../durations.js";
import { grid } from "../grid.js";
import { jobUrl, runUrl } from "../links.js";
import { redraw } from "../redraw.js";
import { stamp } from "../stamp.js";
import { t } from "../text.js";
import { badge, codeOf } from "../verdicts.js";

/** Beyond this share of what is usual it is said. */
const LONG = 1.5;

/** @typedef {any} Going as `longest` of GET /overview says */

const COLUMNS = [
  { key: "name", draw: (/** @type {Going} */ run) => [h("a", { href: jobUrl(run.jobName), class: "row-name", "data-row-link": true }, run.jobName), h("div", { class: "sub" }, run.worker)], className: "wraps" },
  { key: "elapsed", draw: elapsed, className: "wraps" },
  { key: "actions", draw: (/** @type {Going} */ run) => [
    h("a", { class: "btn btn-quiet btn-icon", href: runUrl(run.id), title: t("overview.open.run"), "aria-label": `${t("overview.open.run")}: ${run.jobName}` }, icon("file-text")),
    h("button", { type: "button", class: "btn btn-quiet btn-icon", "data-action": "kill", "data-job": run.jobName, "aria-label": `${t("action.kill")}: ${run.jobName}`, ...offered("kill", run.labels, { title: t("action.kill") }) }, icon("x-octagon")),
  ], className: "num" },
];

/** @param {HTMLElement} part @param {import("./page.js").Overview} seen */
export function showRunning(part, { running, longest }) {
  const rest = running - longest.length;
  redraw(part, longest.length ? grid(t("overview.running"), COLUMNS, longest, "auto stack going", (run) => run.id) : h("p", { class: "muted" }, t("overview.running.none")),
    rest > 0 && h("p", { class: "sub" }, h("a", { href: "/runs?status=running" }, t("overview.running.more", { n: rest }))));
  refresh();
}

/** @param {Going} run */
function elapsed(run) {
  const code = codeOf(run);
  if (code !== "running") return badge(code);
  return [
    h("div", {}, stamp(run.startTime, { as: "lasting" }), h("span", { class: "muted" }, run.usualMs ? ` ${t("overview.usually", { time: whole(Math.max(run.usualMs, 1000)) })}` : "")),
    run.usualMs && h("progress", { max: run.usualMs, value: Math.min(now() - run.startTime, run.usualMs), "data-since": run.startTime, "data-usual": run.usualMs, "aria-label": t("overview.progress", { job: run.jobName }) }),
  ];
}

function refresh() {
  document.querySelectorAll("progress[data-since]").forEach((bar) => {
    const { since, usual } = bar.dataset;
    const share = (now() - Number(since)) / Number(usual);
    bar.value = Math.min(share, 1) * Number(usual);
    bar.classList.toggle("is-long", share > LONG);
  });
}

everySecond(refresh);
