/** Alerts: what is wrong now and since when, what was, and what is kept quiet. */
import { ApiError, get, send } from "../api.js";
import { askFields, listed } from "../asking.js";
import { mayAnything } from "../caller.js";
import { byId, delegate, h, icon } from "../dom.js";
import { grid } from "../grid.js";
import { selectorOf, spelled } from "../labels.js";
import { encoded, jobUrl, runUrl } from "../links.js";
import { on } from "../live/live.js";
import { note, toast } from "../notices.js";
import { Pager } from "../pager.js";
import { redraw } from "../redraw.js";
import { Refresher } from "../refresher.js";
import { quiet, silence, silencers } from "../silencing.js";
import { stamp } from "../stamp.js";
import { t, word } from "../text.js";
import { reasonIn } from "../verdicts.js";

/** @typedef {import("../silencing.js").Alert} Alert */

const EVERY_MS = 5000;
const A_PAGE = 50;

export function start() {
  const pagers = Object.fromEntries(["open", "ended", "silences"].map((part) => [part, new Pager(t("pager.label"), () => void page.now())]));
  const page = new Refresher((signal) => load(pagers, signal), EVERY_MS);
  on(["again", "runs", "ping"], () => page.soon());
  delegate(byId("main"), "click", "[data-silence]", async ({ dataset: { job, silence: what } }) => {
    if (await silence(job, what)) void page.now();
  });
  delegate(byId("silences"), "click", "[data-end]", async ({ dataset: { end: id } }) => {
    if (await endSilence(id)) void page.now();
  });
  const add = byId("new-silence");
  add.hidden = !mayAnything("operator");
  add.addEventListener("click", async () => (await newSilence()) && void page.now());
  return page.now();
}

/** @param {Record<string, Pager>} pagers @param {AbortSignal} signal */
async function load(pagers, signal) {
  try {
    const asked = (/** @type {string} */ path, /** @type {string} */ part, query = {}) => get(path, { query: { ...query, cursor: pagers[part].cursor, limit: A_PAGE }, signal });
    const [open, ended, silences] = await Promise.all([
      asked("/alerts", "open", { state: "open" }), asked("/alerts", "ended", { state: "ended" }), asked("/silences", "silences")]);
    show("open", t("alerts.open"), OPEN, open, pagers.open, t("alerts.none"), "check-circle-fill");
    show("ended", t("alerts.ended"), ENDED, ended, pagers.ended, t("alerts.ended.none"));
    show("silences", t("alerts.silences"), SILENCES, silences, pagers.silences, t("alerts.silences.none"));
    note(byId("problem"), null);
  } catch (error) {
    if (signal.aborted) throw error;
    note(byId("problem"), error.message);
  }
  byId("open").setAttribute("aria-busy", "false");
}

/** @param {string} id @param {string} caption @param {any[]} columns @param {{items: any[], nextCursor: string | null}} page @param {Pager} pager @param {string} none @param {string} [glyph] */
function show(id, caption, columns, { items, nextCursor }, pager, none, glyph = "info-circle") {
  redraw(byId(id), items.length
    ? h("div", { class: "scroll-x", role: "group", tabindex: 0, "aria-label": caption }, grid(caption, columns, items, `auto stack ${id === "silences" ? "" : "alerts"}`, (one) => one.id))
    : h("p", { class: "empty" }, icon(glyph), " ", none), pager.buttons(nextCursor));
}

const WHAT = [
  { key: "kind", draw: (/** @type {Alert} */ one) => [h("strong", { class: one.state === "open" ? "tone-bad" : null }, word("event", one.kind)), one.flapping && h("div", { class: "sub" }, t("alert.flapping"))] },
  { key: "name", draw: (/** @type {Alert} */ one) => (one.job ? h("a", { href: jobUrl(one.job), class: "row-name", "data-row-link": true }, one.job) : one.subject ?? t("alert.system")), className: "wraps" },
  { key: "reason", draw: (/** @type {Alert} */ one) => [one.reason && reasonIn(one.reason), (one.count > 1 || one.lastRun) && h("div", { class: "sub" }, one.count > 1 && [t("alert.times", { n: one.count }), " "], one.lastRun && h("a", { href: runUrl(one.lastRun) }, t("alert.last.run")))], className: "wraps" },
  { key: "since", draw: (/** @type {Alert} */ one) => [stamp(one.sinceTime), h("div", { class: "sub" }, stamp(one.sinceTime, { as: "ago" }))], className: "c-since" },
];

const OPEN = [
  ...WHAT,
  { key: "told", draw: (/** @type {Alert} */ one) => [one.toldTime ? [one.channels.join(", "), h("div", { class: "sub" }, stamp(one.toldTime))] : h("a", { class: "muted", href: "/notifications" }, t("alert.not.told")), quiet(one)].flat(3), className: "wraps" },
  { key: "actions", draw: (/** @type {Alert} */ one) => one.job && h("div", { class: "buttons-of" }, silencers(one)) },
];

const ENDED = [...WHAT, { key: "until", draw: (/** @type {Alert} */ one) => stamp(one.endTime) }];

const SILENCES = [
  { key: "what", draw: (/** @type {any} */ one) => (one.jobs ? one.jobs.join(", ") : one.alert ? one.alert.job : spelled(one.labels)), className: "wraps" },
  { key: "until", draw: (/** @type {any} */ one) => (one.untilTime ? stamp(one.untilTime) : t("silence.until.over")) },
  { key: "who", draw: (/** @type {any} */ one) => [one.by, one.reason && h("div", { class: "sub" }, one.reason)], className: "wraps" },
  { key: "actions", draw: (/** @type {any} */ one) => mayAnything("operator") && h("button", { type: "button", class: "btn btn-plain", "data-key": "end", "data-end": one.id }, t("silence.end")) },
];

function newSilence() {
  return askFields({
    title: t("silence.new"), action: t("silence.make"),
    fields: [
      { name: "jobs", label: t("silence.jobs"), hint: t("silence.jobs.hint"), attributes: { spellcheck: false } },
      { name: "labels", label: t("access.labels"), hint: t("silence.labels.hint"), attributes: { maxlength: 2000, spellcheck: false } },
      { name: "hours", label: t("silence.hours"), type: "number", value: "4", attributes: { min: 0.1, max: 720, step: 0.1 } },
      { name: "reason", label: t("reason"), attributes: { maxlength: 300 } },
    ],
    send: async ({ jobs, labels, hours, reason }) => {
      const chosen = listed(jobs).length ? { jobs: listed(jobs) } : { labels: selectorOf(labels) };
      await send("POST", "/silences", { body: { ...chosen, hours: Number(hours), ...(reason.trim() ? { reason: reason.trim() } : {}) } });
      toast(t("silence.made"));
    },
  });
}

/** @param {string} id */
async function endSilence(id) {
  try {
    await send("DELETE", `/silences/${encoded(id)}`);
    toast(t("silence.ended"));
    return true;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    toast(error.message, "bad");
    return false;
  }
}
