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
import { onlyOnce } from "../once.js";
import { Pager } from "../pager.js";
import { redraw } from "../redraw.js";
import { Refresher } from "../refresher.js";
import { endOf, quiet, silence, silenceMenu } from "../silencing.js";
import { stamp } from "../stamp.js";
import { t, word } from "../text.js";
import { causeOf, reasonIn } from "../verdicts.js";

/** @typedef {import("../silencing.js").Alert} Alert */
/** @typedef {{cause: string, kind: string, exitCode: number | null, count: number, sinceTime: number, times: number, items: Alert[], jobs: string[]}} Group as `groups` of GET /alerts says */
/** @typedef {{id: string, alerts: Alert[], group?: Group, isMember?: boolean}} Row of an alert, or of several of one cause */

const EVERY_MS = 5000;
const A_PAGE = 50;
/** Of a group's jobs, before it is unfolded. */
const NAMED = 3;

/** The causes whose alerts are unfolded. @type {Set<string>} */
const unfolded = new Set();
/** @type {any} as GET /alerts says */
let open = null;

export function start() {
  const pagers = Object.fromEntries(["open", "ended", "silences"].map((part) => [part, new Pager(t("pager.label"), () => void page.now())]));
  const page = new Refresher((signal) => load(pagers, signal), EVERY_MS);
  on(["again", "runs", "ping"], () => page.soon());
  delegate(byId("open"), "click", "[data-silence]", async (item) => {
    const { silence: what, of } = item.dataset;
    item.closest(".dropdown").querySelector("[data-bs-toggle]").focus(); // the menu closes, and has had it
    const row = rowsOf(open.groups).find(({ id }) => id === of);
    if (row && (await silence(jobsOf(row), what))) void page.now();
  });
  delegate(byId("open"), "click", "[data-unfold]", ({ dataset: { unfold } }) => {
    if (!unfolded.delete(unfold)) unfolded.add(unfold);
    showOpen(pagers.open);
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
    const [found, ended, silences] = await Promise.all([
      asked("/alerts", "open", { state: "open", group: "cause" }), asked("/alerts", "ended", { state: "ended" }), asked("/silences", "silences")]);
    open = found;
    if (!document.querySelector("#open .dropdown-menu.show")) showOpen(pagers.open);
    show("ended", t("alerts.ended"), ENDED, ended, pagers.ended, t("alerts.ended.none"));
    show("silences", t("alerts.silences"), SILENCES, silences, pagers.silences, t("alerts.silences.none"));
    note(byId("problem"), null);
  } catch (error) {
    if (signal.aborted) throw error;
    note(byId("problem"), error.message);
  }
  byId("open").setAttribute("aria-busy", "false");
}

/** @param {Pager} pager */
function showOpen(pager) {
  const { untold, groups, nextCursor } = open;
  redraw(byId("untold"), untold > 0 && h("div", { class: "note note-warn" }, icon("bell-slash"), h("span", {}, t(untold < open.open ? "alerts.untold.some" : "alerts.untold", { n: untold }), " ", h("a", { href: "/notifications" }, t("title.notifications")))));
  show("open", t("alerts.open"), OPEN, { items: rowsOf(groups), nextCursor }, pager, t("alerts.none"), "check-circle-fill");
}

/** @param {Group[]} groups @returns {Row[]} */
function rowsOf(groups) {
  const alone = (/** @type {Alert} */ one, isMember = false) => ({ id: one.id, alerts: [one], isMember });
  return groups.flatMap((group) => (group.count === 1 ? [alone(group.items[0])]
    : [{ id: group.cause, alerts: group.items, group }, ...(unfolded.has(group.cause) ? group.items.map((one) => alone(one, true)) : [])]));
}

/** @param {Row} row */
const jobsOf = ({ group, alerts }) => group?.jobs ?? alerts.flatMap(({ job }) => job ?? []);

/** @param {Alert} one */
const nameOf = (one) => (one.job ? h("a", { href: jobUrl(one.job), class: "row-name", "data-row-link": true }, one.job) : one.subject ?? t("alert.system"));

/** @param {Row} row */
function names({ group, alerts }) {
  if (!group) return nameOf(alerts[0]);
  const isOpen = unfolded.has(group.cause), count = t(alerts[0].job ? "overview.jobs" : "alerts.many", { n: group.count });
  return [h("strong", {}, count), h("div", { class: "sub names-of" }, !isOpen && alerts.slice(0, NAMED).map((one) => (one.job ? h("a", { href: jobUrl(one.job), "data-key": one.job }, one.job) : h("span", {}, one.subject ?? t("alert.system")))),
    h("button", { type: "button", class: "btn btn-quiet", "data-key": "unfold", "data-unfold": group.cause, "aria-expanded": String(isOpen), "aria-label": `${t(isOpen ? "alerts.fold" : "alerts.unfold")}${t("colon")}${count}, ${whatOf(group)}` }, icon(isOpen ? "chevron-up" : "chevron-down"), " ", t(isOpen ? "alerts.fold" : "alerts.unfold"))),
    isOpen && group.count > alerts.length && h("div", { class: "sub" }, t("alerts.newest", { n: alerts.length }), " ", h("a", { href: "/jobs?state=failing" }, t("overview.attention.all", { n: group.count })))];
}

/** @param {Alert[]} alerts */
const flaps = (...alerts) => h("div", { class: "sub", title: t("alert.flapping.means") }, t(alerts.every(({ well }) => well) ? "alert.flapping.well" : "alert.flapping"));

/** @param {Group} group */
const whyOfGroup = ({ cause, kind, exitCode, items: [newest] }) => causeOf({ error: cause, status: kind, exitCode: exitCode ?? undefined, reason: newest.reason });

/** @param {Group} group */
const whatOf = (group) => [word("event", group.kind), whyOfGroup(group)].filter(Boolean).join(t("colon"));

/** @param {Row} row */
function why({ group, alerts: [one] }) {
  const times = group?.times ?? one.count;
  return [group ? whyOfGroup(group) : one.reason && reasonIn(one.reason), (times > 1 || one.lastRun) && h("div", { class: "sub" }, times > 1 && [t("alert.times", { n: times }), " "], one.lastRun && h("a", { href: runUrl(one.lastRun) }, t("alert.last.run")))].flat();
}

/** Whom it was told; who is told of nothing is said above all. @param {Row} row */
function told({ group, alerts }) {
  const channels = [...new Set(alerts.flatMap((one) => one.channels))], times = alerts.flatMap(({ toldTime }) => toldTime ?? []);
  return [channels.length > 0 && [channels.join(", "), h("div", { class: "sub" }, stamp(Math.max(...times)))],
    group ? alerts.every((one) => one.silencedUntil) && quiet({ ...alerts[0], acknowledged: null }) : quiet(alerts[0])].flat(2);
}

/** A silence for some of a group's jobs would look as if it were for all. @param {Row} row */
function silencing(row) {
  const jobs = jobsOf(row);
  if (jobs.length < (row.group?.count ?? 1)) return null;
  return silenceMenu(row.id, row.alerts, row.group ? `${t("overview.jobs", { n: row.group.count })}, ${whatOf(row.group)}` : jobs[0]);
}

/** @param {string} id @param {string} caption @param {any[]} columns @param {{items: any[], nextCursor: string | null}} page @param {Pager} pager @param {string} none @param {string} [glyph] */
function show(id, caption, columns, { items, nextCursor }, pager, none, glyph = "info-circle") {
  redraw(byId(id), items.length
    ? h("div", { class: "scroll-x", role: "group", tabindex: 0, "aria-label": caption }, grid(caption, columns, items, `auto stack ${id === "silences" ? "" : "alerts"}`, (one) => one.id))
    : h("p", { class: "empty" }, icon(glyph), " ", none), pager.buttons(nextCursor));
}

const OPEN = [
  { key: "kind", draw: (/** @type {Row} */ row) => (row.isMember ? null : [h("strong", { class: "tone-bad" }, word("event", row.alerts[0].kind)), row.alerts.every(({ flapping }) => flapping) && flaps(...row.alerts)]) },
  { key: "name", draw: names, className: "wraps" },
  { key: "reason", draw: why, className: "wraps" },
  { key: "since", draw: ({ group, alerts: [one] }) => since(group ?? one), className: "c-since" },
  { key: "told", draw: told, className: "wraps" },
  { key: "actions", draw: silencing },
];

/** @param {{sinceTime: number}} one */
const since = ({ sinceTime }) => [stamp(sinceTime), h("div", { class: "sub" }, stamp(sinceTime, { as: "ago" }))];

const ENDED = [
  { key: "kind", draw: (/** @type {Alert} */ one) => [h("strong", {}, word("event", one.kind)), one.flapping && flaps(one)] },
  { key: "name", draw: nameOf, className: "wraps" },
  { key: "reason", draw: (/** @type {Alert} */ one) => why({ id: one.id, alerts: [one] }), className: "wraps" },
  { key: "since", draw: since, className: "c-since" },
  { key: "until", draw: (/** @type {Alert} */ one) => stamp(one.endTime) },
];

const SILENCES = [
  { key: "what", draw: (/** @type {any} */ one) => (one.jobs ? one.jobs.join(", ") : one.alert ? one.alert.job : spelled(one.labels)), className: "wraps" },
  { key: "until", draw: (/** @type {any} */ one) => (one.untilTime ? stamp(one.untilTime) : t("silence.until.over")) },
  { key: "who", draw: (/** @type {any} */ one) => [one.by, one.reason && h("div", { class: "sub" }, one.reason)], className: "wraps" },
  { key: "actions", draw: (/** @type {any} */ one) => mayAnything("operator") && h("button", { type: "button", class: "btn btn-plain", "data-key": "end", "data-end": one.id }, t("silence.end")) },
];

function newSilence() {
  const once = onlyOnce();
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
      const body = { ...chosen, hours: Number(hours), ...(reason.trim() ? { reason: reason.trim() } : {}) };
      toast(t("silence.made", { time: endOf(await send("POST", "/silences", { body, headers: once(body) })) }));
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
