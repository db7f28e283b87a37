/**
 * What this browser has written lately. Behind several managers the next call may reach one whose watch has not seen the
 * write yet: what it answers is older than what the reader has done, so it is asked again, for a moment.
 */
import { get, jobPath } from "./api.js";
import { keep, kept } from "./kept.js";

const KEY = "etcron.written";
/** A watch lags by far less; after this whatever a manager says is believed. */
const KEPT_MS = 10_000;
const PAUSES_MS = [50, 100, 200, 400, 800, 800];

/** @typedef {{revision: number, gone: boolean, atMs: number}} Written */

/**
 * A change of a job has been answered.
 * @param {string} name
 * @param {number | null | undefined} revision the job's; of a deleted one the last that was seen
 * @param {{gone?: boolean}} [options]
 */
export function wrote(name, revision, { gone = false } = {}) {
  if (revision) wroteAll([{ name, revision, gone }]);
}

/** The same of many. @param {{name: string, revision: number, gone: boolean}[]} jobs */
export function wroteAll(jobs) {
  const atMs = Date.now();
  keep(KEY, JSON.stringify({ ...lately(), ...Object.fromEntries(jobs.map(({ name, revision, gone }) => [name, { revision, gone, atMs }])) }));
}

/** Whether the row is older than what was written here. @param {{name: string, revision: number}} job */
export function isOld({ name, revision }) {
  const known = lately()[name];
  return known !== undefined && (known.gone ? revision <= known.revision : revision < known.revision);
}

/** One job, not older than what was written here. @param {string} name @param {{signal?: AbortSignal}} [options] */
export function getJob(name, { signal } = {}) {
  const isMissed = (/** @type {any} */ error) => error.status === 404 && lately()[name]?.gone === false;
  return upToDate(() => get(jobPath(name), { signal }), (job) => !isOld(job), isMissed);
}

/**
 * Asks until the answer is not an old one; in the end it takes what there is.
 * @template T
 * @param {() => Promise<T>} ask
 * @param {(answer: T) => boolean} isNew
 * @param {(error: any) => boolean} [isMissed] whether a failure is an old answer, too
 * @returns {Promise<T>}
 */
export async function upToDate(ask, isNew, isMissed = () => false) {
  for (const pauseMs of PAUSES_MS) {
    try {
      const answer = await ask();
      if (isNew(answer)) return answer;
    } catch (error) {
      if (!isMissed(error)) throw error;
    }
    await new Promise((resolve) => window.setTimeout(resolve, pauseMs));
  }
  return ask();
}

/** @returns {Record<string, Written>} by job */
function lately() {
  try {
    const since = Date.now() - KEPT_MS;
    return Object.fromEntries(Object.entries(JSON.parse(kept(KEY) ?? "{}")).filter(([, { atMs }]) => atMs > since));
  } catch {
    return {}; // not ours
  }
}
