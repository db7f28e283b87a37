/** Where things are. */

/** @param {string} name */
export const jobUrl = (name) => `/jobs/${encodeURIComponent(name)}`;
/** @param {string} id */
export const runUrl = (id) => `/runs/${encodeURIComponent(id)}`;
