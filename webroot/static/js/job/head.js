/** The head of a job's page: its state, what can be done to it, what it is. */
import { byId, fill, h, icon } from "../dom.js";
import { facts } from "../grid.js";
import { jobUrl } from "../links.js";
import { stamp } from "../stamp.js";
import { size, t } from "../text.js";
import { badge } from "../verdicts.js";
import { duration } from "../durations.js";

/** @param {any} job as GET /jobs/{name} says */
export function showHead(job) {
  const { spec } = job;
  const zone = spec?.timezone;
  fill(byId("state"), badge(job.state));
  const actions = byId("actions");
  const key = `${job.state} ${job.running.length > 0}`;
  if (actions.dataset.drawn !== key) {
    actions.dataset.drawn = key;
    fill(actions, buttons(job));
  }
  const paused = job.state === "paused" && job.paused;
  fill(byId("paused"), paused && h("p", { class: "note" }, icon("pause-circle"), h("span", {},
    t("job.paused", { by: paused.by ?? "?" }), " ", stamp(paused.sinceMs, { zone }), paused.reason && `: ${paused.reason}`)));
  fill(byId("facts"), facts([
    ["column.schedule", spec && [h("div", {}, job.words), h("code", { class: "expression" }, spec.cronExpr), h("span", { class: "zone" }, zone)]],
    ["column.next", job.nextFire && [stamp(job.nextFire.ms, { as: "until" }), h("div", { class: "sub" }, stamp(job.nextFire.ms, { zone }))]],
    ["column.running", job.running.map(running)],
    ["field.command", spec && h("code", { class: "command" }, spec.command)],
  ]));
  fill(byId("definition"), spec && definition(job));
}

/** @param {any} run */
function running(run) {
  return h("div", {}, h("a", { href: `/runs/${encodeURIComponent(run.id)}` }, badge(run.state)), " ",
    stamp(run.startTime ?? run.planTime, { as: "lasting" }), " ", t("ask.on", { worker: run.worker }));
}

/** @param {any} job */
function buttons(job) {
  const toggle = job.state === "paused" ? ["resume", "play-fill"] : ["pause", "pause-fill"];
  const button = (/** @type {string} */ action, /** @type {string} */ glyph, disabled = false) =>
    h("button", { type: "button", class: "btn btn-plain", "data-action": action, disabled }, icon(glyph), " ", t(`action.${action}`));
  return [
    h("a", { class: "btn btn-plain", href: `${jobUrl(job.name)}/edit`, id: "edit" }, icon("pencil"), " ", t("action.edit")),
    button(toggle[0], toggle[1], job.state === "broken"),
    button("kill", "x-octagon", job.running.length === 0),
    h("a", { class: "btn btn-plain", href: `/new?from=${encodeURIComponent(job.name)}` }, icon("copy"), " ", t("action.copy")),
    button("delete", "trash"),
  ];
}

/** Every field in words. @param {any} job */
function definition({ spec, savedMs, savedBy, revision }) {
  const { misfire } = spec;
  const pairs = (/** @type {Record<string, string>} */ entries) => Object.entries(entries).map(([name, value]) => h("div", {}, h("code", {}, `${name}=${value}`)));
  /** @type {[string, any][]} */
  const known = [
    ["field.overlap", t(`field.overlap.${spec.overlap}`)],
    ["field.misfire.policy", t(`field.misfire.policy.${misfire.policy}`)],
    ["field.misfire.graceSeconds", duration(misfire.graceSeconds * 1000)],
    ["field.misfire.windowSeconds", duration(misfire.windowSeconds * 1000)],
    ["field.misfire.limit", misfire.limit],
    ["field.timeoutSeconds", spec.timeoutSeconds ? duration(spec.timeoutSeconds * 1000) : t("job.none")],
    ["field.killGraceSeconds", duration(spec.killGraceSeconds * 1000)],
    ["field.outputLimitBytes", size(spec.outputLimitBytes)],
    ["field.lostAfterSeconds", lostAfter(spec.lostAfterSeconds)],
    ["field.env", pairs(spec.env)],
    ["field.labels", pairs(spec.labels)],
    ["job.saved", [stamp(savedMs), ` ${savedBy ?? ""}, `, t("job.revision", { revision: String(revision) })]],
  ];
  return known.flatMap(([key, value]) => [h("dt", {}, t(key)), h("dd", {}, Array.isArray(value) && !value.length ? t("job.none") : value)]);
}

/** @param {number | "never" | null} value */
function lostAfter(value) {
  if (value === "never") return t("job.never");
  return value === null ? t("job.workers.own") : duration(value * 1000);
}
