/** What a job's newest fires came to, as far as they say how well it is: those that ran, or were missed; of what a later version writes nothing is known. */
import { FAILURES, NEVER_RAN, VERDICTS } from "../verdicts.js";

/** @typedef {{status: string, planTime: number, runId: string, durationMs?: number}} Newest */

/** `streak`: so many of the newest all went wrong, or none of them, `since` the first; `isAll`: all that are known. @param {Newest[]} recent oldest first */
export function tally(recent) {
  const owed = recent.filter(({ status }) => FAILURES.includes(status) || (VERDICTS.includes(status) && !NEVER_RAN.includes(status)));
  const isBad = (/** @type {Newest | undefined} */ one) => FAILURES.includes(one?.status ?? "");
  const streak = owed.slice(owed.findLastIndex((one) => isBad(one) !== isBad(owed.at(-1))) + 1);
  const missed = owed.filter(({ status }) => status === "missed"), good = owed.filter(({ status }) => status === "success");
  return {
    owed: owed.length, good: good.length, missed: missed.length, missedMs: missed.at(-1)?.planTime, missedId: missed.at(-1)?.runId, streak: streak.length, since: streak[0]?.planTime, isAll: streak.length === owed.length,
    took: good.flatMap(({ durationMs }) => durationMs ?? []).sort((one, other) => one - other),
  };
}
