/** Taking back a delete, a pause, other labels or a spreading, for some seconds; also on the page that follows. */
import { ApiError, get, jobPath, send } from "./api.js";
import { keep, kept } from "./kept.js";
import { onMany } from "./many.js";
import { announce, toast } from "./notices.js";
import { t } from "./text.js";
import { wrote } from "./written.js";

const KEY = "etcron.undo";
const KEPT_MS = 10_000;
const AT_ONCE = 4;

/** @typedef {"pause" | "delete" | "label" | "spread"} Action */
/**
 * @typedef {{action: Action, names: string[], text: string, atMs: number, revisions: Record<string, number>}} Done
 *   `names`: of those that it has changed; `revisions`: of new labels or a spreading, what each was before
 */

/** Says what was done, with the way back. @param {Action} action @param {string[]} names @param {string} text @param {Record<string, number>} [revisions] */
export function sayDone(action, names, text, revisions = {}) {
  const done = { action, names, text, atMs: Date.now(), revisions };
  keep(KEY, JSON.stringify(done));
  show(done);
}

/** Something has been taken back: what the page reckons may be old. @param {() => void} listener */
export const onTakenBack = (listener) => window.addEventListener("etcron:taken-back", listener);

/** What the page before has said a moment ago, as it led here. */
export function sayAgain() {
  const done = JSON.parse(kept(KEY) || "null");
  if (done?.names.length && Date.now() - done.atMs < KEPT_MS) show(done);
}

/** @param {Done} done */
function show(done) {
  toast(done.text, "ok", done.names.length ? () => void takeBack(done) : null);
}

/** @param {Done} done */
async function takeBack({ action, names, revisions }) {
  keep(KEY, "");
  if (names.length > AT_ONCE) {
    toast(t("undo.going", { n: names.length }));
    window.addEventListener("beforeunload", stay);
  }
  const undone = { pause: "resume", delete: "restore", label: "label", spread: "spread" }[action];
  try {
    const failed = action === "pause" ? await resume(names) : await each(names, action === "delete" ? restore : (name) => gather(name, revisions[name]));
    if (failed.length < names.length) {
      window.dispatchEvent(new CustomEvent("etcron:taken-back"));
      const text = names.length === 1 ? t(`undone.${undone}`, { name: names[0] }) : t(`undone.${undone}.many`, { n: names.length - failed.length });
      toast(text);
    }
    failed.slice(0, 5).forEach(({ name, message }) => toast(`${name}: ${message}`, "bad"));
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    const text = `${t("undo")}: ${error.message}`;
    toast(text, "bad");
    announce(text);
  } finally {
    window.removeEventListener("beforeunload", stay);
  }
}

/** Whoever leaves before the last is taken back is asked whether to. @param {Event} event */
const stay = (event) => event.preventDefault();

/** @param {string[]} names @returns {Promise<{name: string, message: string}[]>} those that are still paused, and why */
async function resume(names) {
  const { results, error } = await onMany(names, { action: "resume" });
  const left = names.slice(results.length).map((name) => ({ name, message: error }));
  return [...results.filter(({ ok }) => !ok), ...left];
}

/** As it was last; a job that somebody has made since under the name stays. @param {string} name */
async function restore(name) {
  const { items } = await get(`${jobPath(name)}/versions`);
  return asIn(name, items[0].revision, { "If-None-Match": "*" });
}

/** As it was before that, where nobody has changed it since. @param {string} name @param {number} before */
async function gather(name, before) {
  const { items: [current, former] } = await get(`${jobPath(name)}/versions`);
  if (former?.revision !== before) throw new ApiError(t("undone.changed"), { status: 409 });
  return asIn(name, before, { "If-Match": `"${current.revision}"` });
}

/** @param {string} name @param {number} revision @param {Record<string, string>} headers */
async function asIn(name, revision, headers) {
  const { job } = await send("POST", `${jobPath(name)}/versions/${revision}/restore`, { body: {}, headers });
  wrote(name, job?.revision);
}

/** Some at a time. @param {string[]} names @param {(name: string) => Promise<void>} back @returns {Promise<{name: string, message: string}[]>} those that are not as they were, and why */
async function each(names, back) {
  /** @type {{name: string, message: string}[]} */
  const failed = [];
  const left = [...names];
  const one = async () => {
    for (let name = left.shift(); name !== undefined; name = left.shift()) {
      try {
        await back(name);
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        failed.push({ name, message: error.message });
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, one));
  return failed;
}
