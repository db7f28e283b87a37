/** The workers that are there, that are drained, and that have left: what each has to do, and taking it out and back in. */
import { get } from "../api.js";
import { mayEverywhere } from "../caller.js";
import { byId, delegate, fill, h, icon } from "../dom.js";
import { redraw } from "../redraw.js";
import { grid } from "../grid.js";
import { workerUrl } from "../links.js";
import { on, status } from "../live/live.js";
import { note } from "../notices.js";
import { Refresher } from "../refresher.js";
import { stamp } from "../stamp.js";
import { number, t } from "../text.js";
import { badge } from "../verdicts.js";
import { clock, slots } from "./cells.js";
import { drain, undrain } from "./drains.js";
import { takers } from "./takers.js";

const EVERY_MS = 2000;

/** @typedef {any} Worker as GET /workers says */

const COLUMNS = [
  { key: "state", draw: state, className: "wraps" },
  { key: "name", draw: (/** @type {Worker} */ worker) => h("a", { href: worker.name ? workerUrl(worker.name) : null, class: "row-name", "data-row-link": true }, worker.name ?? worker.key) },
  { key: "host", draw: (/** @type {Worker} */ worker) => worker.host && [worker.host, h("div", { class: "sub" }, worker.address ?? ""),
    worker.isolation === "none" && h("div", { class: "sub", title: t("workers.isolation.none.hint") }, t("workers.isolation.none"))] },
  { key: "slots", draw: slots },
  { key: "load", draw: (/** @type {Worker} */ { beat }) => (beat?.load === null || beat?.load === undefined ? null : number(beat.load, 2)), className: "num" },
  { key: "memory", draw: (/** @type {Worker} */ { beat }) => (beat?.memoryPercent === null || beat?.memoryPercent === undefined ? null : `${number(beat.memoryPercent)} %`), className: "num" },
  { key: "clock", draw: clock },
  { key: "version", draw: (/** @type {Worker} */ worker) => worker.version && [worker.version, h("div", { class: "sub" }, `tzdata ${worker.tzdata ?? "?"}`)] },
  { key: "labels", draw: (/** @type {Worker} */ worker) => Object.entries(worker.labels ?? {}).map(([name, value]) => h("span", { class: "label" }, `${name}=${value}`)), className: "wraps" },
  { key: "since", draw: (/** @type {Worker} */ worker) => since(worker.sinceMs ?? worker.seenMs) },
  { key: "actions", draw: actions },
];

export function start() {
  const list = new Refresher(load, EVERY_MS);
  on(["again", "workers"], () => list.heard());
  on(["ping", "health"], () => list.soon()); // load, waiting fires, clocks: nothing tells of them
  delegate(byId("workers"), "click", "[data-drain]", async ({ dataset: { worker, drain: what } }) => {
    if (!(await (what === "drain" ? drain(worker) : undrain(worker)))) return;
    list.heard();
    await list.now();
    document.querySelector(`[data-worker="${CSS.escape(worker)}"]`)?.focus();
  });
  return list.now();
}

/** @param {AbortSignal} signal */
async function load(signal) {
  try {
    const { items } = await get("/workers", { signal });
    const { taking, live } = takers(items);
    const isStale = ["away", "unready"].includes(status.health?.etcd);
    fill(byId("total"), isStale ? t("jobs.healthy.unknown") : t("workers.taking", { n: live, taking }));
    const kinds = new Set(items.map((/** @type {Worker} */ one) => one.tzdata).filter(Boolean));
    redraw(byId("workers"), !live && h("p", { class: "empty" }, t("workers.none")),
      items.length > 0 && grid(t("title.workers"), COLUMNS, items, "auto stack", (/** @type {Worker} */ one) => one.name ?? one.key));
    note(byId("problem"), isStale ? t("workers.stale") : kinds.size > 1 ? t("workers.tzdata", { versions: [...kinds].join(", ") }) : null, "warn");
  } catch (error) {
    if (signal.aborted) throw error;
    note(byId("problem"), error.message);
  }
  byId("workers").setAttribute("aria-busy", "false");
}

/** @param {number|undefined} ms */
const since = (ms) => ms && [stamp(ms), h("div", { class: "sub" }, stamp(ms, { as: "ago" }))];

/** @param {Worker} worker */
function state({ state: code, problem, drained, session, left }) {
  if (left && !drained) return [badge(code), h("span", { class: "sub" }, " ", t("workers.not.live"))];
  if (!drained) return [badge(code), problem && h("div", { class: "sub tone-warn" }, problem)];
  const running = code === "draining" && h("div", { class: "sub" }, t("workers.draining"));
  return [badge(code), !session && h("span", { class: "sub" }, " ", t("workers.not.live")), running,
    h("div", { class: "sub" }, t("workers.drained.by", { by: drained.by }), " ", stamp(drained.sinceMs), drained.reason && `: ${drained.reason}`)];
}

/** @param {Worker} worker */
function actions({ name, drained, left }) {
  if (!name || (left && !drained) || !mayEverywhere("admin")) return null;
  const [what, glyph] = drained ? ["undrain", "play-fill"] : ["drain", "pause-fill"];
  const label = t(`workers.${what}`);
  return h("button", { type: "button", class: "btn btn-plain", "data-key": what, "data-drain": what, "data-worker": name, "aria-label": `${label}: ${name}` }, icon(glyph), " ", label);
}
