/** Where things are. */

/**
 * For a path or a query. A key in etcd may have a name that is no text, with halves of surrogates where a byte was none;
 * a browser refuses to encode these.
 * @param {string} text
 */
export const encoded = (text) => encodeURIComponent(text.replace(/\p{Cs}/gu, "\ufffd"));
/** @param {string} name */
export const jobUrl = (name) => `/jobs/${encoded(name)}`;
/** @param {string} id */
export const runUrl = (id) => `/runs/${encoded(id)}`;
/** @param {string} name */
export const workerUrl = (name) => `/workers/${encoded(name)}`;
