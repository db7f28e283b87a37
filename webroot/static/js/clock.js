/** The manager's time, as far as this browser can tell: its own clock, corrected by what the manager says. */

let aheadMs = 0;
/** @type {Set<() => void>} */
const listeners = new Set();

/** @returns {number} ms since the epoch by the manager's clock */
export const now = () => Date.now() + aheadMs;

/** Take in what the manager has just said. A difference below half a second is the network's. @param {number} nowMs */
export function heardNow(nowMs) {
  const ahead = nowMs - Date.now();
  if (Math.abs(ahead - aheadMs) > 500) aheadMs = ahead;
}

/** Calls once a second, while the page is seen. @param {() => void} listener */
export const everySecond = (listener) => listeners.add(listener);

const tick = () => {
  if (!document.hidden) listeners.forEach((listener) => listener());
};
setInterval(tick, 1000);
document.addEventListener("visibilitychange", tick);
