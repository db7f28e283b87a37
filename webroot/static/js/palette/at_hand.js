/** What can be done to the job that the page is of, or whose row has the focus. */
import { act } from "../actions.js";
import { ApiError } from "../api.js";
import { offered } from "../caller.js";
import { jobUrl } from "../links.js";
import { t } from "../text.js";
import { getJob } from "../written.js";

/** @typedef {import("./palette.js").Group} Group */

/** The job at hand; "": none. */
function nameAtHand() {
  const { page, target } = document.body.dataset;
  if (page === "job" || (page === "form" && target)) return target ?? "";
  return /** @type {HTMLElement | null} */ (document.activeElement?.closest("#jobs [data-row]"))?.dataset.name ?? "";
}

/** @param {() => void} found calls once the group is filled @returns {Group} */
export function actionsAtHand(found) {
  const name = nameAtHand();
  /** @type {Group} */
  const group = { title: name, entries: [] };
  if (name) void find(name).then((entries) => { group.entries = entries; found(); });
  return group;
}

/** @param {string} name @returns {Promise<import("./palette.js").Entry[]>} */
async function find(name) {
  try {
    const { state, spec, running } = await getJob(name);
    const glyphs = { run: "play-circle-fill", pause: "pause-fill", resume: "play-fill", kill: "x-octagon", delete: "trash" };
    const isOff = { run: state === "broken", pause: state !== "enabled", resume: state !== "paused", kill: running.length === 0, delete: false };
    const may = (/** @type {string} */ action) => !offered(action, spec?.labels).disabled;
    const done = /** @type {(keyof typeof glyphs)[]} */ (Object.keys(glyphs)).filter((action) => !isOff[action] && may(action)).map((action) => ({
      glyph: glyphs[action], label: `${t(`action.${action}`)}: ${name}`, go: () => void act(action, name) }));
    const edited = may("edit") ? [["edit", "pencil", `${jobUrl(name)}/edit`], ["copy", "copy", `/new?from=${encodeURIComponent(name)}`]] : [];
    const gone = [["log", "list-ul", `${jobUrl(name)}#log`], ...edited].map(([action, glyph, url]) => ({
      glyph, label: `${t(`action.${action}`)}: ${name}`, go: () => window.location.assign(url) }));
    return [...done, ...gone];
  } catch (error) {
    if (error instanceof ApiError) return []; // there is none, or nobody can tell: the rest is offered
    throw error;
  }
}
