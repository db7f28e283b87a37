/** Whether everything behind the manager is well, in words; versions; where each value of the configuration is from. */
import { get } from "../api.js";
import { byId, h } from "../dom.js";
import { duration } from "../durations.js";
import { grid } from "../grid.js";
import { on } from "../live/live.js";
import { note, said } from "../notices.js";
import { redraw } from "../redraw.js";
import { Refresher } from "../refresher.js";
import { size, t, word } from "../text.js";
import { badge } from "../verdicts.js";
import { beatOffMs } from "../workers/beat.js";
import { clockOffset, comparison } from "../workers/clock.js";

const EVERY_MS = 5000;
/** A burst is on its way for a moment; more than this has waited. */
const SPOOL_MANY = 1000;
const BROWSER_MS = 2000;

export function start() {
  const page = new Refresher(load, EVERY_MS);
  on(["again", "health", "workers", "ping"], () => page.soon());
  return page.now();
}

/** @param {AbortSignal} signal */
async function load(signal) {
  try {
    const asked = Date.now();
    const system = await get("/system", { signal });
    const aheadMs = (Date.now() + asked) / 2 - system.nowMs;
    const workers = await get("/workers", { signal }).catch((error) => { if (signal.aborted) throw error; });
    show(system, aheadMs, workers?.items ?? null);
    note(byId("problem"), null);
  } catch (error) {
    if (signal.aborted) throw error;
    note(byId("problem"), error.message);
  }
  byId("checks").setAttribute("aria-busy", "false");
}

/** @param {any} system @param {number} aheadMs how far this browser's clock is ahead of the manager's @param {any[] | null} seen workers; null: they could not be asked for */
function show(system, aheadMs, seen) {
  const { ready } = system;
  const { etcd, logStore, workers, clocks: compared, ...others } = ready.checks ?? {};
  redraw(byId("state"), badge(ready.status));
  redraw(byId("checks"),
    check("etcd", etcd, (etcd?.endpoints ?? []).map((/** @type {any} */ one) => endpoint(one, ready.problems.includes(etcd.problem))), ready.problems),
    check("logStore", logStore, [logStore?.where, logStore?.version && t("system.version", { version: logStore.version }), ...kept(logStore?.retention)], ready.problems),
    check("workers", workers && { state: stateOf(workers) }, workers?.live === null ? [] : [taking(workers ?? { live: 0 })]),
    Object.entries(others).filter(([, value]) => !Array.isArray(value)).map(([name, value]) => check(name, value, name === "jobs" ? jobsIn(value) : [])), // lists are named among the problems
    spool(workers?.live === null ? null : seen),
    clocks(aheadMs, compared, (seen ?? []).filter((worker) => beatOffMs(worker.beat, system.nowMs)), ready.problems),
    ready.problems.map((/** @type {string} */ text) => said(text, ready.status === "unready" ? "bad" : "warn")),
    ready.notes.map((/** @type {string} */ text) => said(text, "info")));
  redraw(byId("versions"), [["etcron", system.version], ["Python", system.python], ["etcd", (etcd?.endpoints ?? []).map((/** @type {any} */ one) => one.version).filter(Boolean).join(", ")], [word("check", "logStore"), logStore?.version]]
    .filter(([, version]) => version).flatMap(([name, version]) => [h("dt", {}, name), h("dd", {}, version)]));
  redraw(byId("managers"), system.managers.length === 0 ? h("p", { class: "muted" }, word("verdict", "unknown")) : grid(t("system.managers"), [
    { key: "host", draw: (/** @type {any} */ one) => one.host },
    { key: "version", draw: (/** @type {any} */ one) => one.version },
    { key: "clock", draw: clockOffset, className: "num" },
    { key: "manager", draw: (/** @type {any} */ one) => h("code", {}, one.id), className: "wraps" },
  ], system.managers, "auto stack", ({ id }) => id));
  redraw(byId("configuration"), system.configuration.length === 0 ? h("p", { class: "muted" }, t("system.configuration.withheld")) : grid(t("system.configuration"), [
    { key: "key", draw: (/** @type {any} */ one) => h("code", {}, one.key) },
    { key: "value", draw: (/** @type {any} */ one) => h("code", {}, typeof one.value === "string" ? one.value : JSON.stringify(one.value)), className: "wraps" },
    { key: "origin", draw: (/** @type {any} */ one) => word("origin", one.origin), className: "wraps" },
  ], system.configuration, "auto stack", ({ key }) => key));
}

/** @param {{days: number | null, perJob: number | null} | null | undefined} retention what the log store keeps; nothing: everything */
function kept(retention) {
  return [retention?.days && t("system.kept.days", { n: retention.days }), retention?.perJob && t("system.kept.perJob", { n: retention.perJob })];
}

/** What is wrong with jobs, by number; each is named below. @param {any} jobs */
function jobsIn({ withoutWorker, broken, unsigned }) {
  return [
    withoutWorker?.count > 0 && t("system.jobs.without", { n: withoutWorker.count }), unsigned?.count > 0 && t("system.jobs.unsigned", { n: unsigned.count }),
    broken?.count > 0 && h("a", { href: "/jobs?state=broken" }, t("overview.broken", { n: broken.count })),
  ];
}

/** @param {{live: number | null, refusing?: any[]}} workers live: null where nobody could be asked */
function stateOf({ live, refusing = [] }) {
  if (live === null) return "unknown";
  return live && !refusing.length ? "ok" : "degraded";
}

/** @param {{live: number, refusing?: any[]}} workers */
const taking = ({ live, refusing = [] }) => t("workers.taking", { n: live, taking: live - refusing.length });

/** Records that wait at the workers for the log store. @param {any[] | null} workers null: not known */
function spool(workers) {
  if (!workers) return check("spool", { state: "unknown" }, []);
  const unsent = workers.reduce((sum, { beat }) => sum + (beat?.unsentRecords ?? 0), 0);
  return check("spool", { state: unsent > SPOOL_MANY ? "degraded" : "ok" }, [t("system.unsent", { n: unsent })]);
}

/**
 * @param {number} aheadMs
 * @param {any} compared the steward's comparison
 * @param {any[]} strange workers whose beats come with a very different time, where nothing is compared
 * @param {string[]} listed problems that stand below already
 */
function clocks(aheadMs, compared, strange, listed) {
  const browser = t(aheadMs < 0 ? "system.clock.behind" : "system.clock.ahead", { time: duration(Math.round(Math.abs(aheadMs))) });
  if (!compared) return check("clocks", { state: "unknown" }, [browser]);
  const far = compared.compared ? [] : strange.map(({ name }) => name);
  const strangers = far.length > 0 && t("clocks.strange", { names: far.join(", ") });
  const isDegraded = far.length > 0 || Math.abs(aheadMs) > BROWSER_MS;
  const state = compared.state === "off" ? "unready" : compared.state === "ok" && isDegraded ? "degraded" : compared.state;
  const words = compared.state === "unknown" ? null : comparison(compared);
  return check("clocks", { state, problem: compared.problem }, [words, strangers, browser], listed);
}

/** @param {string} name @param {any} seen @param {any[]} details @param {string[]} [listed] problems that stand below already */
function check(name, seen, details, listed = []) {
  const lines = details.filter(Boolean).map((one) => h("div", { class: "sub" }, one));
  return h("div", { class: "check-of", "data-key": name }, h("h2", {}, word("check", name)), badge(seen?.state ?? "unreachable"), lines,
    seen?.problem && !listed.includes(seen.problem) && h("div", { class: "sub tone-warn" }, seen.problem));
}

/** @param {any} seen a member of etcd @param {boolean} listed whether the problem stands below already */
function endpoint(seen, listed) {
  if (listed && seen.problem) return seen.endpoint;
  if (seen.problem || seen.withheld) return `${seen.endpoint}: ${seen.problem ?? seen.withheld}`;
  const used = t("system.database", { used: size(seen.dbSizeBytes), quota: size(seen.quotaBytes) });
  return [seen.endpoint, seen.version, seen.isLeader && t("system.leader"), used, ...seen.alarms].filter(Boolean).join(", ");
}
