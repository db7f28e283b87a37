/** What is told of a job: its open alert with the way to keep it quiet, and which rules apply. */
import { get, jobPath } from "../api.js";
import { byId, delegate, h, icon } from "../dom.js";
import { events } from "../notifications/rules.js";
import { on } from "../live/live.js";
import { redraw } from "../redraw.js";
import { Refresher } from "../refresher.js";
import { quiet, silence, silencers } from "../silencing.js";
import { stamp } from "../stamp.js";
import { t, word } from "../text.js";
import { reasonIn } from "../verdicts.js";

const EVERY_MS = 5000;

/** @param {string} name of the job */
export function showNotifications(name) {
  const told = new Refresher(async (signal) => {
    const found = await get(`${jobPath(name)}/notifications`, { signal }).catch((error) => {
      if (signal.aborted) throw error;
      if (error.mayPass) told.later();
      return null; // the head says what is away, or that there is no such job
    });
    if (!found) return;
    redraw(byId("alert"), found.alert && alertOf(found.alert));
    redraw(byId("notifications"), rules(found.items));
  }, EVERY_MS);
  delegate(byId("alert"), "click", "[data-silence]", async ({ dataset: { silence: what } }) => {
    if (await silence([name], what)) void told.now();
  });
  on(["again", "health"], () => told.soon());
  on(["runs"], ({ jobs }) => name in jobs && told.changed());
  on(["jobs"], ({ all, names = [] }) => (all || names.includes(name)) && told.soon());
  return told.now();
}

/** @param {import("../silencing.js").Alert} alert */
function alertOf(alert) {
  return h("div", { class: "note note-bad", id: "open-alert" }, icon("bell-fill"), h("div", {},
    h("strong", {}, word("event", alert.kind)), " ", t("alert.since"), " ", stamp(alert.sinceTime), ", ", stamp(alert.sinceTime, { as: "ago" }), alert.reason && `: ${reasonIn(alert.reason)}`,
    alert.lastSuccessTime && h("div", { class: "sub" }, t("alert.last.success"), " ", stamp(alert.lastSuccessTime)), alert.flapping && h("div", { class: "sub" }, t("alert.flapping.means")), quiet(alert),
    h("div", { class: "buttons-of" }, silencers(alert))));
}

/** @param {any[]} items */
function rules(items) {
  if (!items.length) return h("p", { class: "muted" }, t("job.notifications.none"));
  return h("ul", { class: "named" }, items.map((one) => h("li", { "data-key": one.rule ?? "" },
    t("job.notifications.item", { events: events(one.on), channels: one.to.join(", ") }), " ",
    one.after > 1 && `${t("rule.after.of", { n: one.after })} `, h("span", { class: "sub" }, one.rule ? t("job.notifications.rule", { rule: one.rule }) : t("job.notifications.own")))));
}
