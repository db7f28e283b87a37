/** What a worker's beat tells of its clock. */

/** Beats are written some seconds apart; below this the difference says nothing. */
const SAYS_MS = 15_000;

/**
 * @param {{wallMs: number} | null} beat
 * @param {number} nowMs by the manager's clock
 * @returns {number} how far it is off; 0 where it is in step, or where nothing is known
 */
export function beatOffMs(beat, nowMs) {
  const off = beat ? Math.abs(nowMs - beat.wallMs) : 0;
  return off > SAYS_MS ? off : 0;
}
