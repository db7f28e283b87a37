/** What is known of a run, and how it went, in words. */
import { fill, h, byId } from "../dom.js";
import { duration } from "../durations.js";
import { facts } from "../grid.js";
import { jobUrl } from "../links.js";
import { lateness, took, whyOf } from "../runs/list.js";
import { stamp } from "../stamp.js";
import { number, size, t, word } from "../text.js";
import { badge } from "../verdicts.js";

/** @param {any} run as GET /runs/{id} says @param {string} [zone] of its job */
export function showFacts(run, zone) {
  const going = !run.status;
  fill(byId("of-job"), "/ ", h("a", { href: jobUrl(run.jobName) }, run.jobName));
  const next = run.status ?? run.state;
  if (byId("state").dataset.code !== next) {
    byId("state").dataset.code = next;
    fill(byId("state"), badge(next));
  }
  fill(byId("facts"), facts([
    ["run.why", whyOf(run)],
    ["column.exit", run.exitCode ?? (run.signal ? t("run.signal", { signal: String(run.signal) }) : null)],
    ["column.planned", stamp(run.planTime || null, { as: "long", zone })],
    ["run.until", stamp(run.rangeEndTime, { as: "long", zone })],
    ["column.claimed", stamp(run.claimTime, { as: "long", zone })],
    ["column.started", stamp(run.startTime, { as: "long", zone })],
    ["column.ended", stamp(run.endTime, { as: "long", zone })],
    ["column.lateness", lateness(run) === null ? null : duration(lateness(run))],
    ["column.duration", going && run.startTime ? stamp(run.startTime, { as: "lasting" }) : took(run) === null ? null : duration(took(run))],
    ["column.worker", run.worker && [run.worker, run.host && h("div", { class: "sub" }, run.host)]],
    ["column.attempt", run.attempt],
    ["run.trigger", word("trigger", run.trigger)],
    ["run.by", run.by],
    ["run.memory", run.maxRss ? size(run.maxRss) : null],
    ["run.cpu", run.cpuSeconds === null || run.cpuSeconds === undefined ? null : t("duration.s", { s: number(run.cpuSeconds, 2) })],
    ["run.revision", run.revision],
    ["field.command", run.command && h("code", { class: "command" }, run.command)],
  ]));
}
