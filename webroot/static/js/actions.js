/** What one can do to jobs from any page: run now, pause, resume, kill, delete. Each says afterwards what became of it. */
import { ApiError, jobPath, send } from "./api.js";
import { KINDS, actOnAll, runsNamed } from "./actions_on_all.js";
import { ask } from "./dialogs.js";
import { h } from "./dom.js";
import { runNow } from "./job/run_now.js";
import { announce, toast } from "./notices.js";
import { stamp } from "./stamp.js";
import { t } from "./text.js";
import { sayDone } from "./undo.js";
import { getJob, wrote } from "./written.js";

/** @typedef {import("./actions_on_all.js").Action} Action */
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

/** What a button that ends one run is called: of one job several may run at once, and on several workers. @param {any} run */
const killOf = ({ jobName, startTime, planTime, worker }) => `${t("action.kill")}: ${[jobName, stamp(startTime ?? planTime)?.textContent, worker].filter(Boolean).join(", ")}`;

/** The attributes of a button for `killRun`. @param {any} run */
export const killsRun = (run) => ({ "data-kill": run.id, "data-job": run.jobName, "data-worker": run.worker, "aria-label": killOf(run) });

/** Asks, then has the run of a button ended. @param {HTMLElement} button @returns {Promise<boolean>} whether it was asked for */
export async function killRun({ ariaLabel, dataset: { kill: id = "", job = "", worker = "" } }) {
  const action = t("action.kill");
  const body = [h("p", {}, t(worker ? "ask.kill.run" : "ask.kill.run.waiting", { job, worker }))];
  const reason = await ask({ title: ariaLabel ?? action, body, action, tone: "danger", reason: t("reason") });
  if (reason === null) return false;
  return carried("kill", async () => {
    const { message, outcome } = await send("POST", `/runs/${encodeURIComponent(id)}/kill`, { body: reason ? { reason } : {} });
    toast(message || outcome);
    return true;
  });
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
