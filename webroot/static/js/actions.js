/** What one can do to jobs from any page: run now, pause, resume, kill, delete. Each says afterwards what became of it. */
import { ApiError, jobPath, send } from "./api.js";
import { ask } from "./dialogs.js";
import { h } from "./dom.js";
import { runNow } from "./job/run_now.js";
import { badge } from "./verdicts.js";
import { announce, toast } from "./notices.js";
import { stamp } from "./stamp.js";
import { t } from "./text.js";
import { sayDone } from "./undo.js";
import { getJob, wrote } from "./written.js";

/** @typedef {"pause" | "resume" | "kill" | "delete"} Action */

/** @type {Record<string, {tone: "danger" | "primary", reason: boolean}>} */
const KINDS = {
  pause: { tone: "primary", reason: true },
  resume: { tone: "primary", reason: false },
  kill: { tone: "danger", reason: true },
  delete: { tone: "danger", reason: false },
};

/** @param {string} name */
const isJobName = (name) => /^[A-Za-z0-9._-]{1,128}$/.test(name) && !/^\.{1,2}$/.test(name);

/** What is under way: nobody is asked twice by a double click. @type {Set<string>} */
const underWay = new Set();

/**
 * Asks where that is due, does it, says what became of it.
 * @param {Action | "run"} action
 * @param {string} name
 * @returns {Promise<boolean>} whether something was done
 */
export async function act(action, name) {
  const what = `${action} ${name}`;
  if (underWay.has(what)) return false;
  underWay.add(what);
  try {
    return await acted(action, name);
  } finally {
    underWay.delete(what);
  }
}

/** @param {Action | "run"} action @param {string} name */
async function acted(action, name) {
  if (action === "run") return runNow(name);
  // What no job can be called by may not fit into a path: a list can name it.
  if (action === "delete" && !isJobName(name)) return actOnAll(action, [{ name, running: [], revision: 0, state: "broken" }]);
  return carried(action, async () => {
    const job = action === "kill" || action === "delete" ? await getJob(name) : null;
    const reason = action === "resume" ? "" : await confirmed(action, name, job?.running ?? []);
    if (reason === null) return false;
    const answer = await call(action, name, reason);
    if (action === "delete") wrote(name, job.revision, { gone: true });
    else wrote(name, answer.job?.revision);
    const text = answer.message || t(`done.${action}`, { name });
    if (action === "pause" || action === "delete") sayDone(action, (answer.changed ?? answer.deleted) ? [name] : [], text);
    else toast(text);
    return true;
  });
}

/**
 * The same for many jobs.
 * @param {Action} action
 * @param {{name: string, running: any[], revision: number, state: string}[]} jobs
 */
export async function actOnAll(action, jobs) {
  const names = jobs.map((job) => job.name);
  const { tone, reason } = KINDS[action];
  const going = jobs.flatMap((job) => job.running.map((run) => ({ ...run, jobName: job.name })));
  const body = [h("p", {}, t(`ask.${action}.many`, { n: names.length })), listed(names), ...runsNamed(action, going)];
  const title = t(`action.${action}`);
  const given = await ask({ title, body, action: title, tone, reason: reason ? t("reason") : null });
  if (given === null) return false;
  return carried(action, async () => {
    const { results } = await send("POST", "/jobs/bulk", { body: { action, names, reason: given } });
    const failed = results.filter((/** @type {any} */ one) => !one.ok);
    const done = new Set(results.filter((/** @type {any} */ one) => one.ok).map((/** @type {any} */ one) => one.name));
    jobs.filter(({ name }) => done.has(name)).forEach((job) => noteWritten(action, job));
    const text = t(`done.${action}.many`, { n: done.size });
    const changed = jobs.filter(({ name, state }) => state !== "broken" && results.some((/** @type {any} */ one) => one.name === name && one.changed));
    if (action === "pause" || action === "delete") sayDone(action, changed.map(({ name }) => name), text);
    else toast(text);
    failed.slice(0, 5).forEach((/** @type {any} */ one) => toast(`${one.name}: ${one.message}`, "bad"));
    return true;
  });
}

/** Asks, then has one run ended. @param {{id: string, jobName: string, worker?: string}} run @returns {Promise<boolean>} whether it was asked for */
export async function killRun({ id, jobName, worker = "" }) {
  const title = t("action.kill");
  const body = [h("p", {}, t(worker ? "ask.kill.run" : "ask.kill.run.waiting", { job: jobName, worker }))];
  const reason = await ask({ title: `${title}: ${jobName}`, body, action: title, tone: "danger", reason: t("reason") });
  if (reason === null) return false;
  return carried("kill", async () => {
    const { message, outcome } = await send("POST", `/runs/${encodeURIComponent(id)}/kill`, { body: reason ? { reason } : {} });
    toast(message || outcome);
    return true;
  });
}

/** What many are at now is not told, but it is newer than what they were. @param {Action} action @param {any} job */
function noteWritten(action, { name, revision, state }) {
  if (action === "delete") wrote(name, revision, { gone: true });
  if (action === (state === "paused" ? "resume" : "pause")) wrote(name, revision + 1);
}

/** @param {Action} action @param {string} name @param {any[]} running */
async function confirmed(action, name, running) {
  const { tone, reason } = KINDS[action];
  const body = [h("p", {}, t(`ask.${action}`, { name })), ...runsNamed(action, running)];
  const title = t(`action.${action}`);
  return ask({ title: `${title}: ${name}`, body, action: title, tone, reason: reason ? t("reason") : null });
}

/** @param {Action} action @param {string} name @param {string} reason @returns {Promise<any>} */
function call(action, name, reason) {
  if (action === "delete") return send("DELETE", jobPath(name));
  return send("POST", `${jobPath(name)}/${action}`, { body: reason ? { reason } : {} });
}

/** What runs now, by name: nobody kills or deletes blindly. @param {Action} action @param {any[]} running */
function runsNamed(action, running) {
  if (action !== "kill" && action !== "delete") return [];
  if (!running.length) return [h("p", { class: "muted" }, t("ask.nothing.runs"))];
  const rows = running.slice(0, 20).map((run) => h("li", {},
    badge(run.state), " ", run.jobName ? h("strong", {}, run.jobName, " ") : null,
    stamp(run.startTime ?? run.planTime, { as: "lasting" }), " ", t("ask.on", { worker: run.worker ?? "" })));
  const rest = running.length - rows.length;
  return [h("p", {}, t(`ask.${action}.runs`, { n: running.length })), h("ul", { class: "named" }, rows, rest > 0 && h("li", {}, t("ask.more", { n: rest })))];
}

/** @param {string[]} names */
function listed(names) {
  const rest = names.length - 10;
  return h("p", { class: "named" }, names.slice(0, 10).join(", "), rest > 0 && ` ${t("ask.more", { n: rest })}`);
}

/** @param {Action} action @param {() => Promise<boolean>} work */
async function carried(action, work) {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    const text = `${t(`action.${action}`)}: ${error.message}`;
    toast(text, "bad");
    announce(text);
    return false;
  }
}
