/** The head of a job's page: its state, what can be done to it, what it is. */
import { now } from "../clock.js";
import { mayAnything, offered } from "../caller.js";
import { byId, h, icon } from "../dom.js";
import { facts } from "../grid.js";
import { labelChip, labelsOf } from "../label_chips.js";
import { encoded, jobUrl, runUrl } from "../links.js";
import { visible } from "../printed.js";
import { redraw } from "../redraw.js";
import { stamp } from "../stamp.js";
import { t } from "../text.js";
import { badge } from "../verdicts.js";
import { parts, zoneFor } from "../zones.js";
import { showDefinition } from "./definition.js";
import { commandOf, expressions, outside, pairsOf } from "./values.js";

/** @param {any} job as GET /jobs/{name} says */
export function showHead(job) {
  const { spec } = job;
  const zone = spec?.timezone;
  redraw(byId("state"), badge(job.state));
  redraw(byId("actions"), buttons(job));
  if (spec) showDefinition(job);
  const paused = job.state === "paused" && job.paused;
  redraw(byId("paused"), paused && h("p", { class: "note" }, icon("pause-circle"), h("span", {},
    t("job.paused", { by: paused.by ?? "?" }), " ", stamp(paused.sinceMs, { zone }), paused.reason && `: ${paused.reason}`)));
  redraw(byId("facts"), facts([
    ["job.about", spec?.description && h("div", { class: "wraps" }, visible(spec.description))],
    ["job.links", spec?.links?.length > 0 && spec.links.map((/** @type {any} */ { title, url }) => h("div", {}, outside(title || url, url)))],
    ["column.schedule", spec && [h("div", {}, job.words), ...expressions(spec.cronExpr).flatMap((one, at) => [at > 0 && "| ", h("code", { class: "expression" }, one)]), h("span", { class: "zone" }, zone)]],
    ["column.running", job.running.map(running)],
    ["job.where", spec && where(spec)],
    ["column.labels", spec && labelsOf(spec).map(labelChip)],
    ["run.command", spec && commandOf(spec.command)],
  ]));
}

/** In which zone the times of the page are, and in which the schedule. @param {string | undefined} own the job's */
export function showZones(own) {
  const shown = zoneFor(own);
  const named = (/** @type {string} */ zone) => (zone === "UTC" ? zone : `${zone} (UTC${parts(now(), zone).offset})`);
  redraw(byId("zones"), icon("clock"), " ", t("job.zones", { zone: named(shown) }), own && own !== shown && [" ", h("strong", {}, t("job.zones.schedule", { zone: named(own) }))]);
}

/** On which workers, and before which others. @param {any} spec */
function where({ workers = {}, broadcast, slots = 1, priority = 0 }) {
  const said = [broadcast && t("job.broadcast"), slots !== 1 && t("job.slots", { n: slots }), priority !== 0 && t("job.priority", { priority: String(priority) })].filter(Boolean);
  const chosen = Object.keys(workers).length > 0;
  if (!chosen && !said.length) return null;
  return [chosen && h("div", {}, chips(pairsOf(workers))), said.length > 0 && h("div", { class: chosen ? "sub" : null }, said.join(", "))];
}

/** @param {string[]} texts */
const chips = (texts) => texts.map((text) => h("span", { class: "label" }, text));

/** @param {string} id of a run */
const attemptOf = (id) => Number(/#(\d+)$/.exec(id)?.[1] ?? 1);

/** @param {any} run */
function running(run) {
  const attempt = attemptOf(run.id);
  return h("div", { "data-key": run.id }, h("a", { href: runUrl(run.id) }, badge(run.state)), " ",
    stamp(run.startTime ?? run.planTime, { as: "lasting" }), " ", t("ask.on", { worker: run.worker }),
    attempt > 1 && `, ${t("job.attempt", { n: attempt })}`);
}

/** @param {any} job */
function buttons(job) {
  const toggle = job.state === "paused" ? ["resume", "play-fill"] : ["pause", "pause-fill"];
  const button = (/** @type {string} */ action, /** @type {string} */ glyph, disabled = false) =>
    h("button", { type: "button", class: "btn btn-plain", "data-key": action, "data-action": action, ...offered(action, job.spec?.labels, { disabled }) }, icon(glyph), " ", t(`action.${action}`));
  return [
    button("run", "play-circle-fill", job.state === "broken"),
    !offered("edit", job.spec?.labels).disabled && h("a", { class: "btn btn-plain", href: `${jobUrl(job.name)}/edit`, id: "edit" }, icon("pencil"), " ", t("action.edit")),
    button(toggle[0], toggle[1], job.state === "broken"),
    button("kill", "x-octagon", job.running.length === 0),
    mayAnything("editor") && h("a", { class: "btn btn-plain", href: `/new?from=${encoded(job.name)}` }, icon("copy"), " ", t("action.copy")),
    button("delete", "trash"),
  ];
}
