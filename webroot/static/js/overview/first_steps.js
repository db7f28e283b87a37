/** A fresh installation: what to do next. */
import { mayAnything } from "../caller.js";
import { h, icon } from "../dom.js";
import { redraw } from "../redraw.js";
import { t } from "../text.js";

/** @param {HTMLElement} part @param {import("./page.js").Overview | null} seen null: there are jobs */
export function showFirstSteps(part, seen) {
  redraw(part, seen && h("ol", { class: "first-steps" },
    seen.workers?.total === 0 && step("worker", h("pre", {}, h("code", {}, "etcron start worker --config worker.json"))),
    step("job", mayAnything("editor") && h("a", { class: "btn btn-primary", href: "/new" }, icon("plus-lg"), " ", t("jobs.first"))),
    step("crontab", mayAnything("editor") && h("a", { class: "btn btn-plain", href: "/crontab" }, t("title.crontab")))));
}

/** @param {string} name @param {import("../dom.js").Child} how */
const step = (name, how) => h("li", { "data-key": name }, h("h2", {}, t(`first.${name}`)), h("p", {}, t(`first.${name}.how`)), how);
