/** How far a process's clock is from the others', as the steward has measured it. */
import { h } from "../dom.js";
import { duration } from "../durations.js";
import { t } from "../text.js";

/** @param {{clockOffsetMs: number | null, clockIsOff: boolean}} process a worker or a manager */
export function clockOffset({ clockOffsetMs, clockIsOff }) {
  if (clockOffsetMs === null || clockOffsetMs === undefined) return h("span", { class: "muted" }, t("clock.none"));
  const sign = clockOffsetMs < 0 ? "−" : "+";
  return h("span", { class: clockIsOff ? "tone-warn" : null }, `${sign}${duration(Math.abs(clockOffsetMs))}`);
}

/**
 * The comparison of all clocks in words.
 * @param {{count: number | null, compared: number, maxClockSkewMs: number, off: {name: string}[]}} clocks as `/readyz` has them
 */
export function comparison({ count, compared, maxClockSkewMs, off }) {
  const bound = duration(maxClockSkewMs);
  if (off.length) return t("clocks.off", { bound, names: off.map(({ name }) => name).join(", ") });
  if (compared) return t("clocks.fine", { bound, count: compared });
  return count === null ? t("clocks.none") : t(count < 3 ? "clocks.few" : "clocks.soon", { count });
}
