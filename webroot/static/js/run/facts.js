/** What is known of a run, and how it went, in words. */
import { fill, h, byId } from "../dom.js";
import { duration } from "../durations.js";
import { facts } from "../grid.js";
import { jobUrl, runUrl } from "../links.js";
import { commandOf } from "../job/values.js";
import { redraw } from "../redraw.js";
import { lateness, took } from "../runs/list.js";
import { stamp } from "../stamp.js";
import { size, t, word } from "../text.js";
import { badge, codeOf, whyOf } from "../verdicts.js";

/** @param {any} run as GET /runs/{id} says @param {string} [zone] of its job */
export function showFacts(run, zone) {
  const going = !run.status;
  if (!byId("of-job").firstChild) fill(byId("of-job"), "/ ", h("a", { href: jobUrl(run.jobName) }, run.jobName));
  const next = codeOf(run);
  if (byId("state").dataset.code !== next) {
    byId("state").dataset.code = next;
    fill(byId("state"), badge(next));
  }
  redraw(byId("facts"), facts([
    ["run.why", whyOf(run)],
    ["run.left", run.ending && [t("run.left.text", { worker: run.ending.worker, processes: run.ending.processes.join(", ") }), h("div", { class: "sub" }, stamp(run.ending.sinceMs, { as: "long", zone }))]],
    ["column.exit", run.exitCode ?? (run.signal ? t("run.signal", { signal: String(run.signal) }) : null)],
    ["run.until", stamp(run.rangeEndTime, { as: "long", zone })],
    ["run.count", run.count > 1 ? t(run.countIsMinimum ? "job.fires.least" : "job.fires", { n: run.count }) : null],
    ["run.not.before", run.notBefore > run.planTime ? stamp(run.notBefore, { as: "long", zone }) : null],
    ["run.expires", stamp(run.expiresTime, { as: "long", zone })],
    ["column.lateness", lateness(run) === null ? null : duration(lateness(run))],
    ["column.duration", going && run.startTime ? stamp(run.startTime, { as: "lasting" }) : took(run) === null ? null : duration(took(run))],
    ["column.worker", run.worker && [run.worker, run.host && h("div", { class: "sub" }, run.host)]],
    ["column.attempt", attempts(run)],
    ["run.trigger", word("trigger", run.trigger)],
    ["run.by", run.by],
    ["run.note", run.note],
    ["run.memory", run.maxRss ? size(run.maxRss) : null],
    ["run.cpu", run.cpuSeconds === null || run.cpuSeconds === undefined ? null : duration(run.cpuSeconds * 1000)],
    ["run.revision", run.revision],
    ["run.args", run.args?.length > 0 && commandOf(run.args)],
    ["run.command", run.command && h("code", { class: "command" }, run.command)],
  ]));
}

/** The number of this one, and a link to each before it. @param {any} run */
function attempts({ id, attempt }) {
  if (!(attempt > 1)) return attempt;
  const earlier = Array.from({ length: attempt - 1 }, (_, index) => h("a", { href: runUrl(id.replace(/#\d+$/, `#${index + 1}`)), "aria-label": t("job.attempt", { n: index + 1 }) }, index + 1));
  return [String(attempt), h("div", { class: "sub" }, t("run.earlier"), " ", earlier.flatMap((link, index) => (index ? [", ", link] : [link])))];
}
