/** How many workers are there, and how many of them take fires. */

/** @param {any[]} workers as GET /workers says */
export function takers(workers) {
  const live = workers.filter((worker) => worker.session && worker.state !== "detached");
  return { live: live.length, taking: live.filter(({ state }) => state === "accepting").length };
}
