/** What the list shows, kept in the URL: so it can be sent to somebody, and the browser's Back goes back. */

/** @typedef {{q: string, state: string, label: string[], sort: string, cursor: string}} Query */

const NAMES = /** @type {const} */ (["q", "state", "label", "sort", "cursor"]);
/** What a filter is at rest; the order and the page are none. */
export const NO_FILTERS = { q: "", state: "", label: /** @type {string[]} */ ([]) };

/** @returns {Query} */
export function query() {
  const search = new URLSearchParams(window.location.search);
  const label = [...new Set(search.getAll("label"))].filter(Boolean);
  return /** @type {Query} */ ({ ...Object.fromEntries(NAMES.map((name) => [name, search.get(name) ?? ""])), label });
}

/**
 * Changes some of it; everything but a step to another page goes back to the first one.
 * @param {Partial<Query>} change
 * @param {{typed?: boolean}} [options] `typed`: no entry of its own in the history
 */
export function setQuery(change, { typed = false } = {}) {
  const wanted = { ...query(), cursor: "", ...change };
  const search = new URLSearchParams(NAMES.flatMap((name) => [wanted[name]].flat().filter(Boolean).map((one) => [name, one])));
  const url = search.size ? `/jobs?${search}` : "/jobs";
  if (typed) window.history.replaceState(null, "", url);
  else window.history.pushState(null, "", url);
}

/** @param {() => void} listener */
export const onBack = (listener) => window.addEventListener("popstate", listener);
