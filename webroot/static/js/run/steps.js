/** The steps of a run, in the order of their times; what is still to come stands last. A fire is made as it is claimed; what never was is recorded. */

const STEPS = { created: "createTime", planned: "planTime", claimed: "claimTime", started: "startTime", ended: "endTime" };

/** @param {any} run as GET /runs/{id} says @returns {{name: string, ms: number | null, isAhead?: boolean}[]} `isAhead`: it was claimed before its time */
export function stepsOf(run) {
  if (run.status && !run.claimTime) return [{ name: "planned", ms: run.planTime }, { name: "recorded", ms: run.endTime }].filter(({ ms }) => ms);
  const isOver = run.state === "finished" || Boolean(run.status);
  return Object.entries(STEPS).map(([name, field]) => ({ name, ms: run[field] || null, isAhead: name === "claimed" && run.claimTime < run.planTime }))
    .filter(({ name, ms }) => (ms || (!isOver && name !== "created")) && !(name === "created" && run.createTime === run.claimTime))
    .sort((one, other) => (one.ms ?? Infinity) - (other.ms ?? Infinity) || 0);
}
