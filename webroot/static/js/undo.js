/** Taking back a delete or a pause, for some seconds; also on the page that follows. */
import { ApiError, get, jobPath, send } from "./api.js";
import { keep, kept } from "./kept.js";
import { announce, toast } from "./notices.js";
import { t } from "./text.js";
import { wrote } from "./written.js";

const KEY = "etcron.undo";
const KEPT_MS = 10_000;
const AT_ONCE = 4;

/** @typedef {{action: "pause" | "delete", names: string[], text: string, atMs: number}} Done `names`: of those that it has changed */

/** Says what was done, with the way back. @param {"pause" | "delete"} action @param {string[]} names @param {string} text */
export function sayDone(action, names, text) {
  const done = { action, names, text, atMs: Date.now() };
  keep(KEY, JSON.stringify(done));
  show(done);
}

/** What the page before has said a moment ago, as it led here. */
export function sayAgain() {
  const done = JSON.parse(kept(KEY) || "null");
  if (done?.names.length && Date.now() - done.atMs < KEPT_MS) show(done);
}

/** @param {Done} done */
function show({ action, names, text }) {
  toast(text, "ok", names.length ? () => void takeBack(action, names) : null);
}

/** @param {"pause" | "delete"} action @param {string[]} names */
async function takeBack(action, names) {
  keep(KEY, "");
  const undone = action === "pause" ? "resume" : "restore";
  try {
    const failed = action === "pause" ? await resume(names) : await restore(names);
    if (failed.length < names.length) {
      const text = names.length === 1 ? t(`undone.${undone}`, { name: names[0] }) : t(`undone.${undone}.many`, { n: names.length - failed.length });
      toast(text);
    }
    failed.slice(0, 5).forEach(({ name, message }) => toast(`${name}: ${message}`, "bad"));
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    const text = `${t("undo")}: ${error.message}`;
    toast(text, "bad");
    announce(text);
  }
}

/** @param {string[]} names @returns {Promise<{name: string, message: string}[]>} those that are still paused, and why */
async function resume(names) {
  const { results } = await send("POST", "/jobs/bulk", { body: { action: "resume", names } });
  return results.filter((/** @type {any} */ one) => !one.ok);
}

/** As they were last; a job that somebody has made since under the name stays. @param {string[]} names */
async function restore(names) {
  /** @type {{name: string, message: string}[]} */
  const failed = [];
  const left = [...names];
  const one = async () => {
    for (let name = left.shift(); name !== undefined; name = left.shift()) {
      try {
        const { items } = await get(`${jobPath(name)}/versions`);
        const { job } = await send("POST", `${jobPath(name)}/versions/${items[0].revision}/restore`, { body: {}, headers: { "If-None-Match": "*" } });
        wrote(name, job?.revision);
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        failed.push({ name, message: error.message });
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, one));
  return failed;
}
