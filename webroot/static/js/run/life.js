/** The life of a run, step by step: asked for or decided, planned, claimed, started, ended. */
import { now } from "../clock.js";
import { fill, h, icon } from "../dom.js";
import { stamp } from "../stamp.js";
import { t } from "../text.js";

const STEPS = { created: "createTime", planned: "planTime", claimed: "claimTime", started: "startTime", ended: "endTime" };

/** @param {HTMLElement} box an ol @param {any} run as GET /runs/{id} says @param {string} [zone] of its job */
export function showLife(box, run, zone) {
  const isOver = run.state === "finished" || Boolean(run.status);
  const steps = Object.entries(STEPS).map(([name, field]) => ({ name, ms: run[field] || null })).filter(({ name, ms }) => ms || (!isOver && name !== "created"));
  const reached = steps.map(({ ms }) => ms !== null && ms <= now() + 500);
  const key = JSON.stringify([steps, reached, zone, run.waitsFor]);
  if (box.dataset.drawn === key) return;
  box.dataset.drawn = key;
  fill(box, steps.map(({ name, ms }, index) => h("li", { class: reached[index] ? "is-reached" : null },
    h("div", { class: "step-of" }, icon(reached[index] ? "check2" : "circle"), " ", t(`column.${name}`), !reached[index] && h("span", { class: "visually-hidden" }, ` (${t("run.to.come")})`)),
    ms ? stamp(ms, { as: "long", zone }) : h("span", { class: "muted", "aria-hidden": "true" }, "–"),
    ms && !reached[index] && h("div", { class: "sub" }, stamp(ms, { as: "until" })))));
}
