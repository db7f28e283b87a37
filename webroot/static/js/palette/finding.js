/** What the palette finds: jobs by the server's search, runs by their ids, pages by their names. */
import { ApiError, get } from "../api.js";
import { mayAnything } from "../caller.js";
import { showHelp } from "../help.js";
import { jobUrl, runUrl } from "../links.js";
import { t, word } from "../text.js";

/** @typedef {import("./palette.js").Group} Group */

const MOST_JOBS = 8;
const RUN_ID = /^[\w.~-]+@(\d+|r-[\w-]+)(#\d+)?$/;

/** @param {string} url */
const to = (url) => () => window.location.assign(url);

/** @param {string} text @param {AbortSignal} signal @returns {Promise<Group>} */
export async function jobsLike(text, signal) {
  const title = t("nav.jobs");
  try {
    const { items, total } = await get("/jobs", { query: { q: text, limit: MOST_JOBS }, signal });
    const jobs = items.map((/** @type {any} */ { name, state, words }) => ({ glyph: "calendar3", label: name, hint: state === "enabled" ? words : word("verdict", state), go: to(jobUrl(name)) }));
    const all = { glyph: "search", isOfText: true, label: t("palette.all", { n: total }), go: to(`/jobs?q=${encodeURIComponent(text)}`) };
    return { title, entries: total > jobs.length ? [...jobs, all] : jobs };
  } catch (error) {
    if (signal.aborted) return { title, entries: [] };
    if (error instanceof ApiError) return { title, entries: [], problem: error.message };
    throw error;
  }
}

/** What of it is also like another text, until the answer to that is there. @param {Group} found @param {string} wanted in small letters @returns {Group} */
export const stillLike = ({ title, entries }, wanted) => ({ title, entries: wanted ? entries.filter(({ label, isOfText }) => !isOfText && label.toLowerCase().includes(wanted)) : [] });

/** @param {string} text @returns {Group} */
export function runsLike(text) {
  const id = text.includes("#") ? text : `${text}#1`;
  return { title: t("nav.runs"), entries: RUN_ID.test(text) ? [{ glyph: "play-circle-fill", label: id, go: to(runUrl(id)) }] : [] };
}

/** Those of the menu, and what stands elsewhere in the bar. @param {string} wanted in small letters @returns {Group} */
export function pagesLike(wanted) {
  const menu = /** @type {HTMLAnchorElement[]} */ ([...document.querySelectorAll(".bar nav a:not([hidden])")]);
  const pages = menu.map((link) => ({ glyph: "chevron-right", label: link.textContent?.trim() ?? "", go: to(link.pathname) }));
  const others = [
    ...(mayAnything("editor") ? [{ glyph: "plus-lg", label: t("jobs.new"), go: to("/new") }, { glyph: "list-ul", label: t("title.crontab"), go: to("/crontab") }] : []),
    { glyph: "bell", label: t("title.notifications"), go: to("/notifications") },
    { glyph: "person", label: t("title.account"), go: to("/account") },
    { glyph: "keyboard", label: t("help.open"), go: showHelp },
  ];
  return { title: t("palette.pages"), entries: [...pages, ...others].filter(({ label }) => label.toLowerCase().includes(wanted)) };
}
