/** One action on many jobs, so many a call: whatever their number, no call is large, and one hears how far it is. */
import { ApiError, send } from "./api.js";

const A_CALL = 100;

/** @typedef {{name: string, ok: boolean, message: string, changed?: boolean}} Result */

/**
 * What became of each, in the order of the names; of fewer, where a later call failed (then `error` says how) or it was
 * stopped. ApiError: the first call failed, and nothing was done.
 * @param {string[]} names
 * @param {Record<string, unknown>} wish the rest of the call
 * @param {(done: number) => boolean} [goesOn] hears how many are done; false: no more
 * @returns {Promise<{results: Result[], error: string}>}
 */
export async function onMany(names, wish, goesOn = () => true) {
  /** @type {Result[]} */
  const results = [];
  for (let at = 0; at < names.length; at += A_CALL) {
    try {
      const answer = await send("POST", "/jobs/bulk", { body: { ...wish, names: names.slice(at, at + A_CALL) } });
      results.push(...answer.results);
    } catch (error) {
      if (!(error instanceof ApiError) || !at) throw error;
      return { results, error: error.message };
    }
    if (!goesOn(results.length)) break;
  }
  return { results, error: "" };
}
