/** One action on many jobs, so many a call: whatever their number, no call is large, and one hears how far it is. */
import { ApiError, send } from "./api.js";

const A_CALL = 100;

/** @typedef {{name: string, ok: boolean, message: string, changed?: boolean}} Result */
/** @typedef {{results: Result[], error: string, doubt: number}} Came */

/**
 * What became of each, in the order of the names; of fewer, where a later call failed (then `error` says how) or it was
 * stopped. `doubt`: as many after these may have been acted on. ApiError: the first call failed.
 * @param {string[]} names
 * @param {Record<string, unknown>} wish the rest of the call
 * @param {import("./once.js").Once} [once] of the dialog that may ask again after an ApiError
 * @param {(done: number) => boolean} [goesOn] hears how many are done; false: no more
 * @returns {Promise<Came>}
 */
export async function onMany(names, wish, once = () => ({}), goesOn = () => true) {
  /** @type {Result[]} */
  const results = [];
  for (let at = 0; at < names.length; at += A_CALL) {
    const some = names.slice(at, at + A_CALL);
    try {
      results.push(...(await actOn(some, wish, once)));
    } catch (error) {
      if (!(error instanceof ApiError) || !at) throw error;
      return { results, error: error.message, doubt: error.isInDoubt ? some.length : 0 };
    }
    if (!goesOn(results.length)) break;
  }
  return { results, error: "", doubt: 0 };
}

/** One call. @param {string[]} names @param {Record<string, unknown>} wish @param {import("./once.js").Once} once @returns {Promise<Result[]>} */
export async function actOn(names, wish, once) {
  const body = { ...wish, names };
  const { results, message } = await send("POST", "/jobs/bulk", { body, headers: once(body) });
  return results ?? names.map((name) => ({ name, ok: false, message })); // it was done before, and what it came to is not remembered
}
