/** One worker, live or gone: what runs there, what it did in the last day, what happened to it, and what needs it. */
import { killRun } from "../actions.js";
import { get } from "../api.js";
import { mayEverywhere } from "../caller.js";
import { chart } from "../charts/table.js";
import { byId, delegate, h, icon } from "../dom.js";
import { facts } from "../grid.js";
import { encoded, jobUrl } from "../links.js";
import { on } from "../live/live.js";
import { note, said } from "../notices.js";
import { redraw } from "../redraw.js";
import { Refresher } from "../refresher.js";
import { stamp } from "../stamp.js";
import { number, t } from "../text.js";
import { badge } from "../verdicts.js";
import { drain, forget, undrain } from "../workers/drains.js";
import { clock, slots } from "../workers/cells.js";
import { showDay } from "./day.js";
import { runningTable } from "./running.js";

/** @typedef {{slots: number | undefined, draw: (shown: import("../charts/table.js").Shown) => void}} Shown */

const EVERY_MS = 2000;
const HISTORY_EVERY_MS = 60_000;
const DOES = { drain, undrain, forget };

/** @param {string} name */
export async function start(name) {
  const shown = { slots: /** @type {number | undefined} */ (undefined), draw: chart(byId("slots"), { id: "slots", title: t("worker.slots") }) };
  const page = new Refresher((signal) => load(name, shown, signal), EVERY_MS);
  const history = new Refresher((signal) => loadHistory(name, shown, signal), HISTORY_EVERY_MS);
  on(["again", "workers", "runs", "health"], () => page.soon());
  on(["again", "workers"], () => history.soon());
  on(["ping"], () => { page.soon(); history.soon(); }); // load, waiting fires, clocks: nothing tells of them
  delegate(byId("running"), "click", "[data-kill]", async (button) => {
    if (await killRun(button)) page.heard();
  });
  delegate(byId("actions"), "click", "[data-does]", async ({ dataset: { does } }) => {
    if (!(await DOES[/** @type {keyof typeof DOES} */ (does)](name))) return;
    if (does === "forget") return window.location.assign("/workers");
    page.heard();
    await page.now();
    void history.now();
    byId("actions").querySelector("button")?.focus();
  });
  await page.now();
  await history.now();
}

/** @param {string} name @param {Shown} shown @param {AbortSignal} signal */
async function load(name, shown, signal) {
  try {
    const worker = await get(`/workers/${encoded(name)}`, { signal });
    shown.slots = worker.slots;
    show(worker);
    note(byId("problem"), worker.warnings.join("; ") || null, "warn");
    byId("worker").hidden = false;
  } catch (error) {
    if (signal.aborted) throw error;
    note(byId("problem"), error.message);
    if (error.status === 404) byId("worker").hidden = true; // there is nothing to be shown of it
  }
  byId("worker").setAttribute("aria-busy", "false");
}

/** @param {string} name @param {Shown} shown @param {AbortSignal} signal */
async function loadHistory(name, shown, signal) {
  try {
    showDay(name, shown.draw, await get(`/workers/${encoded(name)}/history`, { signal }), shown.slots);
  } catch (error) {
    if (signal.aborted) throw error;
    if (error.status !== 404) redraw(byId("verdicts"), h("p", { class: "tone-warn" }, error.message));
  }
}

/** @param {any} worker */
function show(worker) {
  const { beat, running, session } = worker;
  redraw(byId("state"), badge(worker.state));
  redraw(byId("actions"), buttons(worker));
  redraw(byId("notice"), notices(worker));
  redraw(byId("facts"), facts([
    ["column.host", worker.host && [worker.host, h("div", { class: "sub" }, worker.address)]],
    ["column.slots", slots(worker)],
    ["column.load", beat?.load !== undefined && number(beat.load, 2)],
    ["column.memory", beat?.memoryPercent !== undefined && `${number(beat.memoryPercent)} %`],
    ["column.clock", session && clock(worker)],
    ["column.version", worker.version && [worker.version, h("div", { class: "sub" }, `tzdata ${worker.tzdata ?? "?"}`)]],
    ["column.labels", Object.entries(worker.labels ?? {}).map(([key, value]) => h("span", { class: "label" }, `${key}=${value}`))],
    [session ? "worker.since" : "worker.seen", sinceOf(worker.sinceMs ?? worker.seenMs)],
  ]));
  redraw(byId("running"), runningTable(running.items));
  redraw(byId("running-count"), running.count > running.items.length && t("worker.running.some", { n: running.count, shown: running.items.length }));
  showOnly(worker);
}

/** @param {number | undefined} ms */
const sinceOf = (ms) => ms && [stamp(ms), h("div", { class: "sub" }, stamp(ms, { as: "ago" }))];

/** @param {any} worker */
function notices({ state, drained, problem, session, left, seenMs }) {
  const gone = !session && left && said([t(`worker.left.${left}`), " ", stamp(seenMs), ", ", stamp(seenMs, { as: "ago" })], left === "gone" ? "bad" : "info");
  const out = drained && said([t(state === "draining" ? "workers.draining.by" : "worker.drained.by", { by: drained.by }), " ", stamp(drained.sinceMs), drained.reason && `: ${drained.reason}`], "warn");
  return [gone, out, session && !drained && problem && said(problem, "warn")];
}

/** @param {any} worker */
function buttons({ session, drained }) {
  if (!mayEverywhere("admin")) return [];
  const button = (/** @type {keyof typeof DOES} */ does, /** @type {string} */ glyph) =>
    h("button", { type: "button", class: "btn btn-plain", "data-key": does, "data-does": does }, icon(glyph), " ", t(`workers.${does}`));
  return [
    drained ? button("undrain", "play-fill") : session && button("drain", "pause-fill"),
    !session && button("forget", "trash"),
  ];
}

/** @param {any} worker */
function showOnly({ onlyThere, isAlone, session }) {
  const { items = [], count = 0 } = onlyThere ?? {};
  redraw(byId("only-count"), count > 0 && number(count));
  const none = isAlone && session ? t("worker.alone") : t("worker.only.none");
  redraw(byId("only"), isAlone && session && count > 0 && h("p", { class: "muted" }, t("worker.alone")),
    items.length ? h("ul", { class: "only-of" }, items.map((/** @type {string} */ job) => h("li", {}, h("a", { href: jobUrl(job) }, job)))) : h("p", { class: "muted" }, none),
    count > items.length && h("p", { class: "muted" }, t("ask.more", { n: count - items.length })));
}
