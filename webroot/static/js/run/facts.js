/** What is known of a run, and how it went, in words. */
import { byId, fill, h } from "../dom.js";
import { duration } from "../durations.js";
import { facts } from "../grid.js";
import { jobUrl, workerUrl } from "../links.js";
import { commandOf } from "../job/values.js";
import { said } from "../notices.js";
import { redraw } from "../redraw.js";
import { lateness, took } from "../runs/list.js";
import { stamp } from "../stamp.js";
import { size, t, word } from "../text.js";
import { badge, codeOf, RETRIED, toneOf, whyApart, whyOf } from "../verdicts.js";
import { attemptsOf } from "./attempts.js";
import { lastLineOf } from "./progress_lines.js";

/** Of what is said of it. @param {any} run */
function toneFor(run) {
  const tone = run.status || run.state === "ending" ? toneOf(codeOf(run)) : "";
  return tone === "bad" || tone === "warn" ? tone : "info";
}

/** @param {any} run as GET /runs/{id} says @param {string} [zone] of its job */
export function showFacts(run, zone) {
  const going = !run.status;
  if (!byId("of-job").firstChild) fill(byId("of-job"), "/ ", h("a", { href: jobUrl(run.jobName) }, run.jobName));
  redraw(byId("heading"), run.jobName, run.planTime && [" ", stamp(run.planTime, { as: "long", zone })]);
  const next = codeOf(run);
  if (byId("state").dataset.code !== next) {
    byId("state").dataset.code = next;
    fill(byId("state"), badge(next));
  }
  const why = whyOf(run);
  const last = why && RETRIED.includes(next) && lastLineOf(run.output ?? "");
  redraw(byId("why"), why && said(last ? [why, h("code", { class: "last-line" }, last)] : whyApart(run), toneFor(run)));
  redraw(byId("attempts"), attemptsOf(run));
  redraw(byId("facts"), facts([
    ["run.left", run.ending && [t("run.left.text", { worker: run.ending.worker, processes: run.ending.processes.join(", ") }), h("div", { class: "sub" }, stamp(run.ending.sinceMs, { as: "long", zone }))]],
    ["run.command", commandFor(run)],
    ["column.duration", going && run.startTime ? stamp(run.startTime, { as: "lasting" }) : took(run) === null ? null : duration(took(run))],
    ["column.lateness", lateness(run) === null || (going && lateness(run) < 1000) ? null : duration(lateness(run))],
    ["column.worker", run.worker && [h("a", { href: workerUrl(run.worker) }, run.worker), run.host && run.host !== run.worker && h("div", { class: "sub" }, run.host)]],
    ["column.exit", next !== "failed" && (run.exitCode ?? (run.signal ? t("run.signal", { signal: String(run.signal) }) : null))],
    ["run.trigger", [word("trigger", run.trigger), run.by && h("div", { class: "sub" }, run.by)]],
    ["column.attempt", !(run.attempts?.length > 1) && run.attempt],
    ["run.due", run.dueTime && stamp(run.dueTime, { zone })],
    ["run.until", stamp(run.rangeEndTime, { as: "long", zone })],
    ["run.count", run.count > 1 ? t(run.countIsMinimum ? "job.fires.least" : "job.fires", { n: run.count }) : null],
    ["run.not.before", run.notBefore > run.planTime ? stamp(run.notBefore, { as: "long", zone }) : null],
    ["run.expires", stamp(run.expiresTime, { as: "long", zone })],
    ["run.note", run.note],
    ["run.memory", run.maxRss ? size(run.maxRss) : null],
    ["run.cpu", run.cpuSeconds === null || run.cpuSeconds === undefined ? null : duration(run.cpuSeconds * 1000)],
    ["run.revision", run.revision],
  ]));
}

/** How much it has printed. @param {any} run @param {number} n lines of progress, which are not shown */
export function showSize(run, n) {
  const output = run?.output ?? "";
  byId("output-size").textContent = [output && size(run.outputBytes ?? output.length), n > 0 && t("run.progress.hidden", { n })].filter(Boolean).join(", ");
}

/** The command has the run's own arguments at its end; without it they stand alone. @param {any} run */
const commandFor = ({ command, args }) => (command ? commandOf(command) : args?.length > 0 && commandOf(args));
