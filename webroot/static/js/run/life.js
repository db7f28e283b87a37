/** The life of a run, step by step, in the order of their times. */
import { now } from "../clock.js";
import { fill, h, icon } from "../dom.js";
import { stamp } from "../stamp.js";
import { t } from "../text.js";
import { toneOf } from "../verdicts.js";
import { stepsOf } from "./steps.js";

/** @param {HTMLElement} box an ol @param {any} run as GET /runs/{id} says @param {string} [zone] of its job */
export function showLife(box, run, zone) {
  const steps = stepsOf(run);
  const reached = steps.map(({ ms }) => ms !== null && ms <= now() + 500);
  const key = JSON.stringify([steps, reached, zone, run.waitsFor]);
  if (box.dataset.drawn === key) return;
  box.dataset.drawn = key;
  fill(box, steps.map(({ name, ms, isAhead }, index) => h("li", { class: reached[index] ? `is-reached${name === "ended" && toneOf(run.status) === "bad" ? " is-bad" : ""}` : null },
    h("div", { class: "step-of" }, icon(!reached[index] ? "circle" : name === "ended" && toneOf(run.status) === "bad" ? "x-lg" : "check2"), " ", t(`column.${name}`), !reached[index] && h("span", { class: "visually-hidden" }, ` (${t("run.to.come")})`)),
    ms ? stamp(ms, { as: "long", zone }) : h("span", { class: "muted", "aria-hidden": "true" }, "–"),
    isAhead && h("div", { class: "sub" }, t("run.claimed.ahead")),
    ms && !reached[index] && h("div", { class: "sub" }, stamp(ms, { as: "until" })))));
}
