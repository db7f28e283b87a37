/** Whether all is well, in two seconds: a verdict, counts that are links, what needs attention, what runs. */
import { act, killRun } from "../actions.js";
import { get } from "../api.js";
import { byId, delegate, h, icon } from "../dom.js";
import { on } from "../live/live.js";
import { markFailing } from "../mark.js";
import { announce, note } from "../notices.js";
import { redraw } from "../redraw.js";
import { Refresher } from "../refresher.js";
import { t } from "../text.js";
import { Attention } from "./attention.js";
import { showFirstSteps } from "./first_steps.js";
import { Running } from "./running.js";
import { serversIn, tilesOf } from "./tiles.js";
import { verdictOf } from "./verdict.js";

/** What is shown is counted for all browsers at most as often. */
const EVERY_MS = 2000;

/** @typedef {any} Overview as GET /overview says */

export function start() {
  const attention = new Attention(byId("attention"), () => changed(page));
  const running = new Running(byId("running"));
  const page = new Refresher((signal) => load({ attention, running }, signal, () => page.soon()), EVERY_MS);
  on(["again", "jobs", "runs", "workers", "health", "failing", "ping"], () => page.soon());
  delegate(byId("main"), "click", "[data-action]", async ({ dataset: { action, job } }) => {
    if (await act(action, job)) changed(page);
  });
  delegate(byId("running"), "click", "[data-kill]", async (button) => {
    if (await killRun(button)) changed(page);
  });
  return page.now().then(async () => (await import("./spans.js")).startSpans());
}

/** @param {Refresher} page */
function changed(page) {
  page.heard();
  void page.now();
}

/** @typedef {{attention: Attention, running: Running}} Parts */

/** @param {Parts} parts @param {AbortSignal} signal @param {() => void} again */
async function load(parts, signal, again) {
  try {
    show(await get("/overview", { signal }), parts);
    note(byId("problem"), null);
  } catch (error) {
    if (signal.aborted) throw error;
    note(byId("problem"), error.message);
    if (error.mayPass) again();
  }
  byId("all-well").setAttribute("aria-busy", "false");
}

/** @param {Overview} seen @param {Parts} parts */
function show(seen, { attention, running }) {
  const isNew = seen.jobs.total === 0 && seen.running === 0;
  const { tone, text } = verdictOf(seen);
  const before = byId("verdict").textContent;
  byId("all-well").className = `all-well is-${tone}`;
  redraw(byId("verdict"), icon(tone === "ok" ? "check-circle-fill" : tone === "idle" ? "info-circle" : "exclamation-triangle-fill"), " ", h("span", {}, text));
  if (before?.trim() !== text) announce(text);
  showFirstSteps(byId("first-steps"), isNew ? seen : null);
  byId("seen").hidden = isNew;
  redraw(byId("tiles"), tilesOf(seen));
  markFailing(seen.jobs.failing);
  attention.show(seen);
  running.show(seen);
  redraw(byId("servers"), serversIn(seen), h("span", { class: "muted" }, t("overview.details")));
}
