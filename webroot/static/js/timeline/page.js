/** The timeline: lanes over now, how full the minutes are above them, and the crowded hours of the week. */
import { get } from "../api.js";
import { fillOf, s } from "../charts/svg.js";
import { chart } from "../charts/table.js";
import { now } from "../clock.js";
import { byId, delegate, fill, h } from "../dom.js";
import { on } from "../live/live.js";
import { note } from "../notices.js";
import { redraw } from "../redraw.js";
import { Refresher } from "../refresher.js";
import { number, t, word } from "../text.js";
import { onTakenBack } from "../undo.js";
import { fullestOf, toneOfWait, waitWords } from "../waiting.js";
import { onChange } from "../zones.js";
import { showCrowd } from "./crowd.js";
import { heatLegend, heatOf, heatRows } from "./heat.js";
import { lanesOf, marginOf, pausedOf, rowsOf } from "./lanes.js";
import { hourLabel, lateLegend, pressureOf, pressureRows, whenOf } from "./pressure.js";
import { startKeys, startPointers, View } from "./view.js";

const EVERY_MS = 10_000;
const WEEK_EVERY_MS = 60_000;
const AGAIN_MS = 4_000;
const DAY = 86_400_000;
/** After a move, so that a quick reader asks once. */
const SETTLED_MS = 250;

export function start() {
  /** @type {{lanes: any, forecast: any, week: any}} */
  const known = { lanes: null, forecast: null, week: null };
  let settling = 0;
  const view = new View((isOver) => {
    draw();
    if (!isOver) return;
    window.clearTimeout(settling);
    settling = window.setTimeout(() => void list.now(), SETTLED_MS);
  });
  const showLanes = chart(byId("lanes"), { id: "lanes", title: t("timeline.lanes"), extra: legend() });
  const showPressure = chart(byId("pressure"), { id: "pressure", title: t("timeline.pressure"), extra: slotsLegend() });
  const showHeat = chart(byId("heat"), { id: "heat", title: t("timeline.heat") });
  const saved = () => { list.heard(); week.heard(); };
  const crowd = (/** @type {number} */ from, /** @type {number} */ to) => void showCrowd(from, to, view.query, saved);

  function draw() {
    const { lanes, forecast } = known, span = view.span;
    byId("spans").querySelectorAll("button").forEach((button) => button.setAttribute("aria-pressed", String(!view.fixed && Number(button.dataset.hours) === view.hours)));
    if (!lanes) return;
    showLanes({
      draw: (width) => (lanes.items.length ? lanesOf(width, lanes, span) : null), rows: () => rowsOf(lanes),
      columns: [t("column.name"), t("column.state"), t("timeline.column.ran"), t("timeline.column.coming"), t("column.next"), t("timeline.column.usual")],
      note: [t("timeline.hint"), view.query.by === "worker" && ` ${t("timeline.no.fires")}`, " ", pausedOf(lanes.paused, view.query.paused)],
    });
    const pressure = { used: lanes.used, usedMean: lanes.usedMean ?? [], usedFrom: lanes.usedFrom, usedMs: lanes.bucketMs, wanted: forecast?.items ?? [], wantedMs: forecast?.bucketMs ?? 60_000, slots: forecast?.slots ?? known.week?.slots ?? 0 };
    showPressure({
      draw: (width) => pressureOf(width, pressure, span, crowd), rows: () => pressureRows(pressure), note: [certainty(forecast), lateLegend(pressure.wanted)],
      columns: [t("timeline.column.time"), t("timeline.used"), t("timeline.wanted"), t("timeline.column.fires"), t("timeline.column.wait")],
    });
  }

  const list = new Refresher(async (signal) => {
    try {
      const { from, to } = view.span, { by, key, q, paused, cursor } = view.query, soon = Math.max(from, now());
      if (by === "label" && !key) return fill(byId("total"), t("timeline.key.needed"));
      const asked = { from: Math.round(from), to: Math.round(to) };
      const lanes = await get("/timeline", { query: { ...asked, by, key, q, paused: paused || "hidden", cursor, limit: 30 }, signal });
      known.lanes = lanes;
      note(byId("problem"), lanes.warnings.join("; ") || null, "warn");
      fill(byId("total"), t(`timeline.total.${by || "job"}`, { n: lanes.total }));
      pager(lanes, view);
      draw();
      // Only then: of many jobs it takes the manager a while, in which it would have less time for the lanes.
      known.forecast = soon < to ? await get("/forecast", { query: { q, from: Math.round(soon), to: Math.round(Math.min(to, soon + DAY)), buckets: 400 }, signal }) : null;
      draw();
    } catch (error) {
      if (signal.aborted) throw error;
      note(byId("problem"), error.message);
      if (error.mayPass) list.soon();
    }
  }, EVERY_MS);
  const week = new Refresher(async (signal) => {
    try {
      known.week = await get("/forecast/week", { query: { q: view.query.q }, signal });
      showHeat({ draw: (width) => heatOf(width, known.week, crowd), rows: () => heatRows(known.week), columns: [t("timeline.column.hour"), t("timeline.column.fires"), t("timeline.column.slots"), t("timeline.column.wait")], note: [heatLegend(known.week), h("div", {}, certainty(known.week))] });
      fullest(known.week, crowd);
      if (known.week.unknown) week.soon();
    } catch (error) {
      if (signal.aborted) throw error;
      if (!error.mayPass) note(byId("fullest"), error.message);
      else if (!known.week) note(byId("fullest"), t("timeline.counting"), "info"); // what takes long is there when it is asked for again
      if (error.mayPass) window.setTimeout(() => void week.now(), AGAIN_MS);
    }
    byId("fullest").setAttribute("aria-busy", "false");
  }, WEEK_EVERY_MS);

  startFilters(view, list, week);
  startKeys(view);
  for (const id of ["lanes", "pressure"]) startPointers(/** @type {HTMLElement} */ (byId(id).querySelector(".chart-of")), view, () => room(byId(id)));
  on(["again", "runs", "health"], () => list.soon());
  on(["jobs", "workers"], () => { list.soon(); week.soon(); });
  on(["ping"], () => { list.soon(); week.soon(); });
  onTakenBack(saved);
  onChange(() => known.week && fullest(known.week, crowd));
  return list.now().then(() => week.now());
}

/** Where time is drawn. @param {HTMLElement} host */
function room(host) {
  const box = /** @type {HTMLElement} */ (host.querySelector(".chart-of")).getBoundingClientRect(), left = marginOf(box.width);
  return { left: box.left + left, width: Math.max(box.width - left - 12, 1) };
}

const slotsLegend = () => h("span", { class: "legend" }, h("span", { class: "key tone-ok" }), t("timeline.used"), h("span", { class: "key tone-run" }), t("timeline.wanted"));

/** What the bars mean, with their patterns. */
function legend() {
  const bar = (/** @type {any} */ tone) => s("svg", { width: 16, height: 12, "aria-hidden": "true" }, s("rect", { ...fillOf(tone), width: 16, height: 12, rx: 1.5 }));
  const tick = s("svg", { width: 8, height: 12, "aria-hidden": "true" }, s("path", { class: "ticks", d: "M4 0v12" }));
  const pair = (/** @type {Element} */ key, /** @type {string} */ text) => h("span", {}, key, " ", text);
  return h("span", { class: "legend chart" }, pair(bar("ok"), word("verdict", "success")), pair(bar("bad"), word("verdict", "failed")), pair(bar("warn"), word("verdict", "killed")), pair(bar("run"), word("verdict", "running")), pair(tick, t("timeline.column.coming")), pair(bar("shut"), word("verdict", "paused")));
}

/** How well it is known. @param {any} forecast */
function certainty(forecast) {
  if (!forecast) return null;
  return [forecast.unknown && t("timeline.unknown", { n: forecast.unknown }), forecast.estimated && t("timeline.estimated", { n: forecast.estimated })].filter(Boolean).join(" ");
}

/** The answer in a line; what the hour that has begun was fullest with may be over. @param {any} week @param {(from: number, to: number) => void} crowd */
function fullest({ items, slots, jobs }, crowd) {
  const most = fullestOf(items.filter((/** @type {any} */ { time }) => time > now())) ?? fullestOf(items), tone = toneOfWait(most?.waitMs);
  const total = items.reduce((/** @type {number} */ sum, /** @type {any} */ one) => sum + one.fires, 0);
  redraw(byId("fullest"), h("h2", {}, t("timeline.fullest")),
    most ? [h("p", { class: `big${tone ? ` tone-${tone}` : ""}` }, hourLabel(whenOf(most.time), most.fires, most.slots)),
      h("p", { class: "sub" }, waitWords(most.waitMs, slots)),
      h("button", { type: "button", class: "btn btn-plain", "data-crowd": most.time, onclick: () => crowd(most.time, most.time + 3_600_000) }, t("timeline.whose"))]
      : h("p", { class: "muted" }, t("timeline.nothing")),
    h("p", { class: "sub" }, t("timeline.week", { n: Math.round(total), jobs: number(jobs) })));
}

/** @param {any} lanes @param {View} view */
function pager({ nextCursor }, view) {
  byId("pager").hidden = !nextCursor && !view.query.cursor;
  redraw(byId("pager"), view.query.cursor && h("button", { type: "button", class: "btn btn-plain", "data-key": "first", "data-cursor": "" }, t("pager.first")),
    nextCursor && h("button", { type: "button", class: "btn btn-plain", "data-key": "next", "data-cursor": nextCursor }, t("pager.next")));
}

/** The labels that the first jobs have; the one that most of them have, where none is asked for. @param {HTMLFormElement} form @param {View} view */
async function suggest(form, view) {
  const { items } = await get("/jobs", { query: { limit: 100 } }).catch(() => ({ items: [] }));
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const { spec } of items) for (const name of Object.keys(spec?.labels ?? {})) counts.set(name, (counts.get(name) ?? 0) + 1);
  const names = [...counts].sort(([, one], [, other]) => other - one).map(([name]) => name);
  fill(byId("keys"), names.map((name) => h("option", { value: name })));
  if (view.query.key || !names.length) return form.elements.key.focus();
  form.elements.key.value = names[0];
  view.ask({ key: names[0] }, { typed: true });
}

/** @param {View} view @param {Refresher} list @param {Refresher} week */
function startFilters(view, list, week) {
  const form = /** @type {HTMLFormElement} */ (byId("filters"));
  const show = () => {
    const by = view.query.by || "job";
    form.elements.q.value = view.query.q;
    form.elements.key.value = view.query.key;
    byId("key-of").hidden = by !== "label";
    byId("by").querySelectorAll("button").forEach((button) => button.setAttribute("aria-pressed", String(button.dataset.by === by)));
  };
  let typing = 0;
  form.addEventListener("submit", (event) => event.preventDefault());
  delegate(form, "input", "input", ({ name, value }) => {
    view.ask({ [name]: value.trim() }, { typed: true });
    window.clearTimeout(typing);
    typing = window.setTimeout(() => { void list.now(); if (name === "q") void week.now(); }, 300);
  });
  delegate(form, "click", "[data-by]", ({ dataset: { by } }) => {
    view.ask({ by: by === "job" ? "" : by });
    show();
    void (by === "label" ? suggest(form, view).finally(() => list.now()) : list.now());
  });
  delegate(form, "click", "[data-hours]", ({ dataset: { hours } }) => view.around(Number(hours)));
  delegate(byId("pager"), "click", "[data-cursor]", ({ dataset: { cursor } }) => {
    view.ask({ cursor });
    void list.now();
  });
  delegate(byId("lanes"), "click", "[data-paused]", async ({ dataset: { paused } }) => {
    view.ask({ paused });
    await list.now();
    document.getElementById("paused")?.focus();
  });
  window.addEventListener("popstate", () => {
    const { q } = view.query;
    view.take();
    show();
    void list.now();
    if (view.query.q !== q) void week.now();
  });
  show();
}
